#include "client/cli/sample_source.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>

#include "client/cli/wav_format.hpp"

namespace penstock::cli {
namespace {

using namespace std::string_view_literals;

enum class container : std::uint8_t { wav, sound, npy, foreign };

struct magic {
  std::string_view start;
  std::string_view form;  ///< at byte 8; "" = anything
  container kind;
  std::string_view name;
};

constexpr std::array<magic, 26> magics{{{"RIFF"sv, "WAVE"sv, container::wav, "WAV"},
                                        {"RIFF"sv, ""sv, container::foreign, "RIFF"},
                                        {"RIFX"sv, ""sv, container::sound, "RIFX"},
                                        {"RF64"sv, ""sv, container::sound, "RF64"},
                                        {"BW64"sv, ""sv, container::sound, "BW64"},
                                        {"riff\x2e\x91\xcf\x11"sv, ""sv, container::sound, "W64"},
                                        {".snd"sv, ""sv, container::sound, "AU"},
                                        {"fLaC"sv, ""sv, container::sound, "FLAC"},
                                        {"FORM"sv, "AIFF"sv, container::sound, "AIFF"},
                                        {"FORM"sv, "AIFC"sv, container::sound, "AIFF"},
                                        {"OggS"sv, ""sv, container::sound, "Ogg"},
                                        {"caff"sv, ""sv, container::sound, "CAF"},
                                        {"NIST_1A"sv, ""sv, container::sound, "NIST"},
                                        {"\x93NUMPY"sv, ""sv, container::npy, ".npy"},
                                        {"\x89HDF\r\n"sv, ""sv, container::foreign, "HDF5"},
                                        {"PK\x03\x04"sv, ""sv, container::foreign, "zip or .npz"},
                                        {"\x1f\x8b\x08"sv, ""sv, container::foreign, "gzip"},
                                        {"\xfd\x37zXZ"sv, ""sv, container::foreign, "xz"},
                                        {"\x28\xb5\x2f\xfd"sv, ""sv, container::foreign, "zstd"},
                                        {"MATLAB 5.0"sv, ""sv, container::foreign, "MATLAB"},
                                        {"PAR1"sv, ""sv, container::foreign, "Parquet"},
                                        {"SQLite format"sv, ""sv, container::foreign, "SQLite"},
                                        {"ID3"sv, ""sv, container::foreign, "MP3"},
                                        {"wvpk"sv, ""sv, container::foreign, "WavPack"},
                                        {"\x1a\x45\xdf\xa3"sv, ""sv, container::foreign, "Matroska"},
                                        {"\x89PNG\r\n"sv, ""sv, container::foreign, "PNG"}}};

/// File name endings that are never raw samples.
constexpr std::array<std::string_view, 26> container_endings{
    ".wav", ".wave", ".flac", ".au",  ".snd", ".aif",  ".aiff", ".aifc", ".w64", ".rf64", ".caf", ".ogg", ".opus",
    ".mp3", ".npy",  ".npz",  ".csv", ".txt", ".json", ".h5",   ".hdf5", ".mat", ".zip",  ".gz",  ".xz",  ".parquet"};

bool agrees(std::string_view seen, std::string_view wanted, std::size_t at) {
  const std::string_view part = seen.size() > at ? seen.substr(at, wanted.size()) : ""sv;
  return wanted.starts_with(part);
}

/// Compares byte by byte: a short live stream must not wait for more bytes only to detect its format.
const magic* magic_of(input_stream& input) {
  constexpr std::size_t most = 13;
  std::string_view seen;
  for (std::size_t count = 1; count <= most; ++count) {
    const auto bytes = input.peek(count);
    seen = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    const auto may_be = [seen](const magic& each) { return agrees(seen, each.start, 0) && agrees(seen, each.form, 8); };
    if (seen.size() < count || std::none_of(magics.begin(), magics.end(), may_be)) {
      break;
    }
  }
  const auto* const found = std::find_if(magics.begin(), magics.end(), [seen](const magic& each) {
    const bool has_form = each.form.empty() || agrees(seen, each.form, 8);
    return seen.starts_with(each.start) && has_form;
  });
  return found == magics.end() ? nullptr : &*found;
}

std::string ending_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  std::string ending = dot == std::string::npos || name.find('/', dot) != std::string::npos ? "" : name.substr(dot);
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char each) { return each >= 'A' && each <= 'Z' ? static_cast<char>(each + ('a' - 'A')) : each; });
  return ending;
}

/// The sound format that a pipeline's input needs.
struct wanted_samples {
  std::string dtype;
  std::int64_t channels = 1;
};

/// A frame's rows are samples in time; a row holds channels, or I and Q.
wanted_samples wanted_by(const tensor_info& input) {
  if (input.dtype == "c64") {
    return {"f32", 2};
  }
  return {input.dtype, input.shape.size() > 1 ? input.shape.back() : 1};
}

void check_fit(const sound_format& sound, bool one_channel, const tensor_info& input) {
  const wanted_samples wanted = wanted_by(input);
  const std::string both = "the pipeline takes " + input.text() + ", the file holds " + sound.text();
  if (sound.dtype != wanted.dtype) {
    throw input_error(both + ": send it to a pipeline whose input is \"" + sound.dtype +
                      "\", or convert the file first");
  }
  const std::int64_t channels = one_channel ? 1 : sound.channels;
  if (channels != wanted.channels) {
    throw input_error(both + (wanted.channels == 1 ? ": choose one of them with --channel"
                                                   : ": it needs " + std::to_string(wanted.channels) + " channels"));
  }
}

/// An array is one long signal, [samples, ...], or frames of it, [frames, samples, ...].
void check_fit(const npy_format& array, const tensor_info& input) {
  const std::span<const std::int64_t> frame{input.shape};
  const std::span<const std::int64_t> shape{array.shape};
  const bool is_signal =
      !frame.empty() && shape.size() == frame.size() && std::ranges::equal(shape.subspan(1), frame.subspan(1));
  const bool is_frames = shape.size() == frame.size() + 1 && std::ranges::equal(shape.subspan(1), frame);
  // The bits of bf16 are uint16 to a numpy without ml_dtypes.
  const bool is_type = array.dtype == input.dtype || (array.dtype == "u16" && input.dtype == "bf16");
  if (!is_type || (!is_signal && !is_frames)) {
    std::string rest;
    for (const std::int64_t extent : frame.empty() ? frame : frame.subspan(1)) {
      rest += ", " + std::to_string(extent);
    }
    const std::string both = "the pipeline takes " + input.text() + ", the .npy file holds " + array.text();
    if (is_signal || is_frames) {
      throw input_error(both + ": save it as " + input.dtype + " with numpy's astype");
    }
    throw input_error(both + ": save it as " + input.dtype + (frame.empty() ? "[frames]" : "[samples" + rest + "]") +
                      " in numpy" +
                      (shape.size() == frame.size() + 1 ? ", one channel at a time if it has several" : ""));
  }
}

std::uint64_t product_of(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, [](std::uint64_t all, std::int64_t extent) {
    return all * static_cast<std::uint64_t>(extent);
  });
}

}  // namespace

sample_source::sample_source(input_stream& stream, input_kind kind, std::optional<int> channel,
                             const tensor_info& input)
    : from_(stream) {
  const magic* const found = kind == input_kind::raw ? nullptr : magic_of(from_);
  if (found != nullptr && found->kind == container::foreign) {
    throw input_error(from_.name() + " looks like a file of the kind " + std::string(found->name) +
                      ", which send can't read: convert it, or say --raw if its bytes are the samples");
  }
  if (found != nullptr && found->kind == container::sound && is_live()) {
    throw input_error("a " + std::string(found->name) +
                      " can't be read from a pipe: give the file's name, or pipe WAV or raw samples");
  }
  if (found != nullptr && found->kind == container::npy) {
    open_npy(input);
  } else if (found != nullptr && found->kind == container::wav) {
    open_wav();
  } else if (found != nullptr) {
    open_sound_file();
  } else if (kind == input_kind::automatic && std::find(container_endings.begin(), container_endings.end(),
                                                        ending_of(from_.name())) != container_endings.end()) {
    throw input_error(from_.name() +
                      " does not begin as a file with that ending does: " + "say --raw if its bytes are the samples");
  }
  take_channel(channel, input);
}

/// Uncompressed samples are read directly, the same way for files and live streams.
void sample_source::open_wav() {
  wav_format format = read_wav_header(from_);
  if (!format.is_pcm() && !is_live()) {
    open_sound_file();
    return;
  }
  sound_ = format.sound();
  notes_ = std::move(format.notes);
  left_ = format.data_bytes.value_or(UINT64_MAX);
  is_odd_ = left_ % 2 != 0;
  item_in_ = format.sample_bytes;
  item_out_ = sound_->sample_bytes();
  row_items_ = sound_->channels;
  conversion_ = item_in_ == 3 ? conversion::widen_24 : item_in_ == 8 ? conversion::narrow_64 : conversion::none;
}

void sample_source::open_sound_file() {
  from_.rewind();
  try {
    file_.emplace(from_.descriptor());
  } catch (const sound_error& error) {
    throw input_error("can't read " + from_.name() + " as a sound file: " + error.what() +
                      " Convert it first (sox, ffmpeg), or say --raw if its bytes are the samples");
  }
  sound_ = file_->format();
  notes_ = file_->complaints();
  item_in_ = item_out_ = sound_->sample_bytes();
  row_items_ = sound_->channels;
  left_ = file_->rows() * item_in_ * row_items_;
}

void sample_source::open_npy(const tensor_info& input) {
  const npy_format format = read_npy_format(from_);
  check_fit(format, input);
  item_in_ = item_out_ = format.item_bytes();
  number_bytes_ = format.number_bytes();
  conversion_ = format.big_endian ? conversion::swap : conversion::none;
  left_ = product_of(format.shape) * item_in_;
  if (format.fortran_order) {
    load_fortran(format);
  }
}

/// In Fortran order the last number may belong to the first frame: the whole array must be loaded.
void sample_source::load_fortran(const npy_format& format) {
  if (from_.size() && left_ > *from_.size()) {
    throw input_error("the .npy file ends before its array does: the header says " + format.text());
  }
  // A pipe's header may be wrong: allocate only as bytes arrive.
  constexpr std::uint64_t step = std::uint64_t{1} << 20U;
  std::vector<std::byte> columns;
  while (columns.size() < left_) {
    const std::size_t before = columns.size();
    const std::size_t count = std::min(step, left_ - before);
    columns.resize(before + count);
    if (from_.read_all(std::span{columns}.subspan(before)) != count) {
      throw input_error("the .npy file ends before its array does: the header says " + format.text());
    }
  }
  loaded_.resize(columns.size());
  std::vector<std::uint64_t> index(format.shape.size(), 0);
  for (std::size_t at = 0; at < loaded_.size(); at += item_out_) {
    std::uint64_t offset = 0;
    for (std::size_t axis = index.size(); axis-- > 0;) {
      offset = offset * static_cast<std::uint64_t>(format.shape[axis]) + index[axis];
    }
    convert(columns.data() + offset * item_in_, loaded_.data() + at, 1);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < static_cast<std::uint64_t>(format.shape[axis])) {
        break;
      }
      index[axis] = 0;
    }
  }
  is_loaded_ = true;
}

void sample_source::take_channel(std::optional<int> channel, const tensor_info& input) {
  if (channel && !sound_) {
    throw input_error("--channel needs a sound file: raw samples say nothing of channels");
  }
  if (channel && (*channel < 1 || static_cast<std::uint32_t>(*channel) > sound_->channels)) {
    throw input_error("there is no channel " + std::to_string(*channel) + ": the file holds " + sound_->text());
  }
  if (sound_) {
    check_fit(*sound_, channel.has_value(), input);
    if (channel && sound_->channels > 1) {
      channel_ = static_cast<std::size_t>(*channel - 1);
    }
  }
}

std::optional<std::uint64_t> sample_source::expected_bytes() const {
  if (is_loaded_) {
    return loaded_.size();
  }
  const std::uint64_t bytes = left_ == UINT64_MAX ? from_.size().value_or(UINT64_MAX) : left_;
  if (bytes == UINT64_MAX) {
    return std::nullopt;
  }
  return bytes / item_in_ * item_out_ / (channel_ ? row_items_ : 1);
}

bool sample_source::ended() const noexcept {
  return is_loaded_ ? loaded_at_ == loaded_.size() : left_ == 0 || file_ended_ || from_.ended();
}

std::size_t sample_source::read(std::span<std::byte> out, std::optional<std::chrono::nanoseconds> flush) {
  std::optional<input_stream::clock::time_point> deadline;
  std::size_t taken = 0;
  while (taken < out.size() && !ended() && (!deadline || input_stream::clock::now() < *deadline)) {
    taken += read_rows(out.subspan(taken), deadline);
    if (!deadline && flush && is_live() && taken + packed_.size() > 0) {
      deadline = input_stream::clock::now() + *flush;
    }
  }
  if (ended()) {
    note_end();
  }
  return taken;
}

std::size_t sample_source::read_rows(std::span<std::byte> out,
                                     std::optional<input_stream::clock::time_point> deadline) {
  if (is_loaded_) {
    const std::size_t count = std::min(out.size(), loaded_.size() - loaded_at_);
    std::copy_n(loaded_.begin() + static_cast<std::ptrdiff_t>(loaded_at_), count, out.begin());
    loaded_at_ += count;
    return count;
  }
  const std::size_t row_in = item_in_ * row_items_;
  const std::size_t row_out = item_out_ * (channel_ ? 1 : row_items_);
  if (conversion_ == conversion::none && !channel_ && !file_ && packed_.empty() && out.size() >= row_in) {
    return read_straight(out.first(out.size() / row_in * row_in), row_in, deadline);
  }
  const std::size_t most = std::max<std::size_t>(out.size() / row_out, 1);
  if (!gather(most * row_in, deadline)) {
    return 0;
  }
  const std::size_t rows = std::min(packed_.size() / row_in, out.size() / row_out);
  for (std::size_t row = 0; row < rows && channel_; ++row) {
    convert(packed_.data() + row * row_in + *channel_ * item_in_, out.data() + row * row_out, 1);
  }
  if (!channel_) {
    convert(packed_.data(), out.data(), rows * row_items_);
  }
  packed_.erase(packed_.begin(), packed_.begin() + static_cast<std::ptrdiff_t>(rows * row_in));
  return rows * row_out;
}

/// Reads without a copy; an incomplete row at the end waits for its rest.
std::size_t sample_source::read_straight(std::span<std::byte> out, std::size_t row,
                                         std::optional<input_stream::clock::time_point> deadline) {
  const std::size_t got = from_.read_some(out.first(std::min<std::uint64_t>(out.size(), left_)), deadline);
  left_ -= left_ == UINT64_MAX ? 0 : got;
  const auto part = out.first(got).last(got % row);
  packed_.assign(part.begin(), part.end());
  return got - part.size();
}

bool sample_source::gather(std::size_t bytes, std::optional<input_stream::clock::time_point> deadline) {
  const std::size_t before = packed_.size();
  packed_.resize(before + std::min<std::uint64_t>(bytes - std::min(bytes, before), left_));
  const auto target = std::span{packed_}.subspan(before);
  const std::size_t got = file_ ? file_->read(target) : from_.read_some(target, deadline);
  packed_.resize(before + got);
  left_ -= left_ == UINT64_MAX ? 0 : got;
  file_ended_ = file_ && got == 0;
  return got > 0;
}

void sample_source::convert(const std::byte* source, std::byte* target, std::size_t items) const {
  if (items == 0) {
    return;
  }
  switch (conversion_) {
    case conversion::none:
      std::memcpy(target, source, items * item_out_);
      return;
    case conversion::swap:
      for (std::size_t at = 0; at < items * item_out_; at += number_bytes_) {
        std::reverse_copy(source + at, source + at + number_bytes_, target + at);
      }
      return;
    case conversion::widen_24:
      for (std::size_t at = 0; at < items; ++at) {
        target[at * 4] = std::byte{0};
        std::memcpy(target + at * 4 + 1, source + at * 3, 3);
      }
      return;
    case conversion::narrow_64:
      for (std::size_t at = 0; at < items; ++at) {
        double wide = 0;
        std::memcpy(&wide, source + at * sizeof wide, sizeof wide);
        const auto narrow = static_cast<float>(wide);
        std::memcpy(target + at * sizeof narrow, &narrow, sizeof narrow);
      }
      return;
  }
}

/// Notes when the data is shorter or longer than announced, or ends within a sample.
void sample_source::note_end() {
  if (end_noted_ || is_loaded_) {
    return;
  }
  end_noted_ = true;
  const bool headed = left_ != UINT64_MAX;
  if (headed && left_ > 0 && !from_.stopped()) {
    notes_.push_back("the data ends " + std::to_string(left_) + " bytes before the header says");
  }
  if (!packed_.empty() && !from_.stopped()) {
    notes_.push_back(std::to_string(packed_.size()) + " bytes at the end are a part of a sample and were left out");
  }
  if (headed && left_ == 0 && !file_ && notes_.empty()) {
    constexpr std::chrono::milliseconds patience{100};
    const std::size_t padding = sound_ && is_odd_ ? 1 : 0;
    auto behind = from_.peek(padding + 8, input_stream::clock::now() + patience);
    behind = behind.subspan(std::min(padding, behind.size()));
    if (!behind.empty() && !(sound_ && (behind.size() < 2 || looks_like_chunk(behind)))) {
      notes_.push_back("the data goes on behind what the header says: that was left out");
    }
  }
}

}  // namespace penstock::cli
