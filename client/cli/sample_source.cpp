#include "client/cli/sample_source.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace penstock::cli {
namespace {

/// How a WAV file has to look for a pipeline's input.
struct wanted_samples {
  std::string dtype;
  std::int64_t channels = 1;
};

/// A frame's rows are moments in time: what is in a row are channels, or I and Q.
wanted_samples wanted_by(const tensor_info& input) {
  if (input.dtype == "c64") {
    return {"f32", 2};
  }
  return {input.dtype, input.shape.size() > 1 ? input.shape.back() : 1};
}

void check_fit(const wav_format& wav, bool one_channel, const tensor_info& input) {
  const wanted_samples wanted = wanted_by(input);
  const std::string both = "the pipeline takes " + input.text() + ", the WAV file holds " + wav.text();
  if (wav.dtype != wanted.dtype) {
    throw input_error(both + ": send it to a pipeline whose input is \"" + wav.dtype + "\", or convert the file first");
  }
  const std::int64_t channels = one_channel ? 1 : wav.channels;
  if (channels != wanted.channels) {
    throw input_error(both + (wanted.channels == 1 ? ": choose one of them with --channel"
                                                   : ": it needs " + std::to_string(wanted.channels) + " channels"));
  }
}

}  // namespace

sample_source::sample_source(std::istream& from, input_format format, std::optional<int> channel,
                             const tensor_info& input)
    : from_(from) {
  std::array<char, 4> first{};
  if (format != input_format::raw) {
    from_.read(first.data(), first.size());
    const auto seen = static_cast<std::size_t>(from_.gcount());
    if (std::string_view{first.data(), seen} == "RIFF") {
      wav_ = read_wav_header(from_);
    } else if (format == input_format::wav) {
      throw input_error("the file is no WAV file: it does not begin with RIFF");
    } else {
      const auto bytes = std::as_bytes(std::span{first}.first(seen));
      ahead_.assign(bytes.begin(), bytes.end());
    }
  }
  if (channel && !wav_) {
    throw input_error("--channel needs a WAV file: raw samples say nothing of channels");
  }
  if (channel && (*channel < 1 || *channel > wav_->channels)) {
    throw input_error("there is no channel " + std::to_string(*channel) + ": the WAV file holds " + wav_->text());
  }
  if (wav_) {
    check_fit(*wav_, channel.has_value(), input);
    left_ = wav_->data_bytes.value_or(UINT64_MAX);
    if (channel && wav_->channels > 1) {
      channel_ = static_cast<std::size_t>(*channel - 1);
    }
  }
}

std::size_t sample_source::read(std::span<std::byte> out) {
  return channel_ ? read_channel(out) : read_bytes(out);
}

std::size_t sample_source::read_bytes(std::span<std::byte> out) {
  const std::size_t most = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left_));
  const std::size_t before = std::min(most, ahead_.size());
  std::copy_n(ahead_.begin(), before, out.begin());
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(before));
  std::size_t taken = before;
  if (taken < most) {
    from_.read(reinterpret_cast<char*>(out.data() + taken), static_cast<std::streamsize>(most - taken));
    taken += static_cast<std::size_t>(from_.gcount());
  }
  left_ -= taken;
  return taken;
}

std::size_t sample_source::read_channel(std::span<std::byte> out) {
  const std::size_t sample = wav_->sample_bytes();
  const std::size_t row = sample * wav_->channels;
  interleaved_.resize(out.size() / sample * row);
  const std::size_t rows = read_bytes(interleaved_) / row;
  for (std::size_t at = 0; at < rows; ++at) {
    std::memcpy(out.data() + at * sample, interleaved_.data() + at * row + *channel_ * sample, sample);
  }
  return rows * sample;
}

}  // namespace penstock::cli
