#include "client/cli/sound_file.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace penstock::cli {
namespace {

sound_format format_of(const SF_INFO& info) {
  sound_format format{"i16", "compressed samples", static_cast<std::uint32_t>(info.channels),
                      static_cast<std::uint32_t>(info.samplerate)};
  const auto set = [&format](const char* dtype, const char* samples) {
    format.dtype = dtype;
    format.samples = samples;
  };
  switch (info.format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_U8:
      set("u8", "8-bit integers");
      break;
    case SF_FORMAT_PCM_S8:
      set("i8", "8-bit integers");
      break;
    case SF_FORMAT_PCM_16:
      set("i16", "16-bit integers");
      break;
    case SF_FORMAT_PCM_24:
      set("i32", "24-bit integers");
      break;
    case SF_FORMAT_PCM_32:
      set("i32", "32-bit integers");
      break;
    case SF_FORMAT_FLOAT:
      set("f32", "32-bit floats");
      break;
    case SF_FORMAT_DOUBLE:
      set("f32", "64-bit floats");
      break;
    case SF_FORMAT_VORBIS:
      set("f32", "Vorbis");
      break;
    case SF_FORMAT_OPUS:
      set("f32", "Opus");
      break;
    default:
      break;  // companded and ADPCM: at most 16 bits
  }
  return format;
}

/// libsndfile has no function for samples of one byte.
sf_count_t read_bytes(SNDFILE* file, std::span<std::byte> out, std::size_t channels, bool is_unsigned) {
  std::vector<short> wide(out.size());
  const sf_count_t rows = sf_readf_short(file, wide.data(), static_cast<sf_count_t>(out.size() / channels));
  for (std::size_t at = 0; at < static_cast<std::size_t>(std::max<sf_count_t>(rows, 0)) * channels; ++at) {
    out[at] = static_cast<std::byte>((wide[at] >> 8) + (is_unsigned ? 128 : 0));
  }
  return rows;
}

}  // namespace

std::size_t sound_format::sample_bytes() const noexcept {
  return dtype == "u8" || dtype == "i8" ? 1 : dtype == "i16" ? 2 : 4;
}

std::string sound_format::text() const {
  return samples + ", " + std::to_string(channels) + (channels == 1 ? " channel, " : " channels, ") +
         std::to_string(rate) + " Hz";
}

sound_file::sound_file(input_stream& from) {
  from.rewind();
  SF_INFO info{};
  file_.reset(sf_open_fd(from.descriptor(), SFM_READ, &info, SF_FALSE));
  if (file_ == nullptr) {
    throw input_error("can't read " + from.name() + " as a sound file: " + sf_strerror(nullptr) +
                      " Convert it first (sox, ffmpeg), or say --raw if its bytes are the samples");
  }
  if (info.channels < 1 || info.samplerate < 1) {
    throw input_error(from.name() + " says that it has no channels or no sample rate: the file is damaged");
  }
  format_ = format_of(info);
  rows_ = static_cast<std::uint64_t>(std::max<sf_count_t>(info.frames, 0));
}

std::size_t sound_file::read(std::span<std::byte> out) {
  const std::size_t channels = format_.channels;
  const std::size_t row = format_.sample_bytes() * channels;
  const auto rows = static_cast<sf_count_t>(out.size() / row);
  sf_count_t got = 0;
  // The caller's memory is that of a frame, which may lie anywhere.
  if (format_.sample_bytes() == 1) {
    got = read_bytes(file_.get(), out, channels, format_.dtype == "u8");
  } else if (format_.dtype == "i16") {
    std::vector<short> samples(static_cast<std::size_t>(rows) * channels);
    got = sf_readf_short(file_.get(), samples.data(), rows);
    std::memcpy(out.data(), samples.data(), static_cast<std::size_t>(std::max<sf_count_t>(got, 0)) * row);
  } else if (format_.dtype == "i32") {
    std::vector<int> samples(static_cast<std::size_t>(rows) * channels);
    got = sf_readf_int(file_.get(), samples.data(), rows);
    std::memcpy(out.data(), samples.data(), static_cast<std::size_t>(std::max<sf_count_t>(got, 0)) * row);
  } else {
    std::vector<float> samples(static_cast<std::size_t>(rows) * channels);
    got = sf_readf_float(file_.get(), samples.data(), rows);
    std::memcpy(out.data(), samples.data(), static_cast<std::size_t>(std::max<sf_count_t>(got, 0)) * row);
  }
  return static_cast<std::size_t>(std::max<sf_count_t>(got, 0)) * row;
}

std::vector<std::string> sound_file::complaints() const {
  std::string log(16384, '\0');
  const int length = sf_command(file_.get(), SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()));
  log.resize(static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(log.size()))));
  std::vector<std::string> lines;
  std::istringstream all{log};
  for (std::string line; std::getline(all, line);) {
    if (line.find("should be") != std::string::npos) {
      line.erase(0, line.find_first_not_of(" *"));
      lines.push_back("the header and the data disagree: " + line);
    }
  }
  return lines;
}

}  // namespace penstock::cli
