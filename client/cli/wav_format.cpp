#include "client/cli/wav_format.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace penstock::cli {
namespace {

constexpr std::uint16_t pcm_tag = 1;
constexpr std::uint16_t float_tag = 3;
constexpr std::uint16_t extensible_tag = 0xFFFE;
/// A format chunk has 16, 18 or 40 bytes.
constexpr std::uint32_t longest_format = 1024;

std::uint32_t little_endian(std::span<const char> bytes) {
  std::uint32_t value = 0;
  for (std::size_t at = bytes.size(); at-- > 0;) {
    value = (value << 8U) | static_cast<unsigned char>(bytes[at]);
  }
  return value;
}

void read_exactly(input_stream& input, std::span<char> out) {
  if (input.read_all(std::as_writable_bytes(out)) != out.size()) {
    throw input_error("the WAV file ends inside its header");
  }
}

struct chunk {
  std::array<char, 4> name{};
  std::uint32_t bytes = 0;

  [[nodiscard]] bool is(std::string_view operation) const {
    return std::string_view{name.data(), name.size()} == operation;
  }
};

chunk read_chunk(input_stream& input) {
  chunk read;
  std::array<char, 4> size{};
  read_exactly(input, read.name);
  read_exactly(input, size);
  read.bytes = little_endian(size);
  return read;
}

/// True for the placeholder sizes of programs that write to a pipe: 0, the maximum, SoX (0x7FFFF000) and arecord
/// (0x80000000 less a header).
bool is_unknown_size(std::uint32_t bytes) {
  constexpr std::uint32_t about_two_gib = 0x7FFFE000;
  return bytes == 0 || (bytes >= about_two_gib && bytes <= 0x80000000U) || bytes >= 0xFFFFF000U;
}

wav_format read_format(input_stream& input, std::uint32_t bytes) {
  if (bytes < 16 || bytes > longest_format) {
    throw input_error("the WAV file's format chunk has " + std::to_string(bytes) + " bytes: the file is damaged");
  }
  std::string body(bytes + bytes % 2, '\0');
  read_exactly(input, body);
  const std::span<const char> fields{body};
  auto tag = static_cast<std::uint16_t>(little_endian(fields.subspan(0, 2)));
  if (tag == extensible_tag && bytes >= 26) {
    tag = static_cast<std::uint16_t>(little_endian(fields.subspan(24, 2)));  // the sub-format begins with it
  }
  wav_format format;
  format.channels = static_cast<std::uint16_t>(little_endian(fields.subspan(2, 2)));
  format.rate = little_endian(fields.subspan(4, 4));
  format.tag = tag;
  format.bits = little_endian(fields.subspan(14, 2));
  const std::uint32_t row = little_endian(fields.subspan(12, 2));
  format.sample_bytes = format.channels > 0 && row % format.channels == 0 ? row / format.channels : 0;
  if (format.channels == 0 || format.rate == 0) {
    throw input_error("the WAV file says that it has no channels or no sample rate: the file is damaged");
  }
  return format;
}

void skip(input_stream& input, std::uint32_t bytes) {
  if (!input.skip(std::uint64_t{bytes} + bytes % 2)) {
    throw input_error("the WAV file ends before its samples begin");
  }
}

/// Samples may look like letters: behind a data chunk of size 0 only known chunk names count.
bool is_trailing_chunk(std::span<const std::byte> bytes) {
  constexpr std::array<std::string_view, 14> known{"LIST", "list", "id3 ", "ID3 ", "bext", "fact", "cue ",
                                                   "smpl", "JUNK", "junk", "PEAK", "iXML", "_PMX", "PAD "};
  if (bytes.size() < 4) {
    return false;
  }
  const std::string_view name{reinterpret_cast<const char*>(bytes.data()), 4};
  return std::find(known.begin(), known.end(), name) != known.end();
}

/// `left`: bytes behind the data chunk's header, if the input is a file.
void take_size(wav_format& format, std::uint32_t said, std::optional<std::uint64_t> left, input_stream& input) {
  constexpr std::size_t chunk_header = 8;
  if (said == 0 && (input.peek(1).empty() || is_trailing_chunk(input.peek(chunk_header)))) {
    format.data_bytes = 0;
    return;
  }
  if (!is_unknown_size(said)) {
    format.data_bytes = said;
  }
  if (left && said != 0 && said > *left) {
    format.data_bytes.reset();
    format.notes.push_back("the header says " + std::to_string(said) + " bytes of samples, the file has " +
                           std::to_string(*left) + ": all of them are taken");
  } else if (left && said == 0) {
    format.notes.push_back("the header says 0 bytes of samples, the file has " + std::to_string(*left) +
                           ": all of them are taken");
  }
}

}  // namespace

sound_format wav_format::sound() const {
  sound_format sound{"", std::to_string(bits) + (tag == float_tag ? "-bit floats" : "-bit integers"), channels, rate};
  const bool fits = bits > 0 && bits <= sample_bytes * 8;
  if (tag == pcm_tag && fits && sample_bytes <= 4) {
    sound.dtype = sample_bytes == 1 ? "u8" : sample_bytes == 2 ? "i16" : "i32";
  } else if (tag == float_tag && fits && (bits == 32 || bits == 64) && bits == sample_bytes * 8) {
    sound.dtype = "f32";
  } else {
    throw input_error("the WAV file holds " +
                      (is_pcm() ? sound.samples + " in " + std::to_string(sample_bytes) + " bytes"
                                : "format tag " + std::to_string(tag)) +
                      "; a stream may have integers of up to 32 bits and floats: convert it first (sox, ffmpeg)");
  }
  return sound;
}

bool looks_like_chunk(std::span<const std::byte> bytes) {
  const auto is_letter = [](std::byte each) { return each >= std::byte{0x20} && each < std::byte{0x7F}; };
  return bytes.size() >= 4 && std::all_of(bytes.begin(), bytes.begin() + 4, is_letter);
}

wav_format read_wav_header(input_stream& input) {
  std::array<char, 12> start{};  // "RIFF", the size of all that follows, and "WAVE"
  read_exactly(input, start);
  if (std::string_view{start.data() + 8, 4} != "WAVE") {
    throw input_error("the file begins with RIFF but is no WAV file; say --raw if its bytes are the samples");
  }
  std::uint64_t at = start.size();
  std::optional<wav_format> format;
  for (;;) {
    const chunk next = read_chunk(input);
    at += 8;
    if (next.is("fmt ")) {
      format = read_format(input, next.bytes);
    } else if (!next.is("data")) {
      skip(input, next.bytes);
    } else if (format) {
      const auto size = input.size();
      const auto left = size ? std::optional<std::uint64_t>{*size - std::min(*size, at)} : std::nullopt;
      take_size(*format, next.bytes, left, input);
      const std::uint64_t riff = std::uint64_t{little_endian(std::span{start}.subspan(4, 4))} + 8;
      if (size && *size > riff && format->data_bytes && at + *format->data_bytes < *size) {
        format->notes.push_back("the header says that the file has " + std::to_string(riff) + " bytes, it has " +
                                std::to_string(*size) + ": only the samples of its data chunk are taken");
      }
      return *format;
    } else {
      throw input_error("the WAV file's samples come before their format: the file is damaged");
    }
    at += std::uint64_t{next.bytes} + next.bytes % 2;
  }
}

}  // namespace penstock::cli
