#include "client/cli/wav_file.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace penstock::cli {
namespace {

constexpr std::uint16_t pcm_tag = 1;
constexpr std::uint16_t float_tag = 3;
constexpr std::uint16_t extensible_tag = 0xFFFE;
constexpr std::uint32_t unknown_size = 0xFFFFFFFF;
/// A format chunk is 16, 18 or 40 bytes long; a longer one is no WAV file's.
constexpr std::uint32_t longest_format = 1024;

std::uint32_t little_endian(std::span<const char> bytes) {
  std::uint32_t value = 0;
  for (std::size_t at = bytes.size(); at-- > 0;) {
    value = (value << 8U) | static_cast<unsigned char>(bytes[at]);
  }
  return value;
}

void read_exactly(std::istream& from, std::span<char> out) {
  from.read(out.data(), static_cast<std::streamsize>(out.size()));
  if (from.gcount() != static_cast<std::streamsize>(out.size())) {
    throw input_error("the WAV file ends inside its header");
  }
}

struct chunk {
  std::array<char, 4> name{};
  std::uint32_t bytes = 0;

  [[nodiscard]] bool is(std::string_view what) const { return std::string_view{name.data(), name.size()} == what; }
};

chunk read_chunk(std::istream& from) {
  chunk read;
  std::array<char, 4> size{};
  read_exactly(from, read.name);
  read_exactly(from, size);
  read.bytes = little_endian(size);
  return read;
}

std::string dtype_of(std::uint16_t tag, std::uint32_t bits) {
  if (tag == pcm_tag && (bits == 8 || bits == 16 || bits == 32)) {
    return bits == 8 ? "u8" : "i" + std::to_string(bits);
  }
  if (tag == float_tag && bits == 32) {
    return "f32";
  }
  const std::string what = tag == pcm_tag     ? std::to_string(bits) + "-bit integers"
                           : tag == float_tag ? std::to_string(bits) + "-bit floats"
                                              : "format tag " + std::to_string(tag);
  throw input_error("the WAV file holds " + what +
                    "; supported are 8-, 16- and 32-bit integers and 32-bit floats: convert it first (sox, ffmpeg)");
}

wav_format read_format(std::istream& from, std::uint32_t bytes) {
  if (bytes < 16 || bytes > longest_format) {
    throw input_error("the WAV file's format chunk has " + std::to_string(bytes) + " bytes: the file is damaged");
  }
  std::string body(bytes + bytes % 2, '\0');
  read_exactly(from, body);
  const std::span<const char> fields{body};
  auto tag = static_cast<std::uint16_t>(little_endian(fields.subspan(0, 2)));
  if (tag == extensible_tag && bytes >= 26) {
    tag = static_cast<std::uint16_t>(little_endian(fields.subspan(24, 2)));  // the sub-format begins with it
  }
  wav_format format;
  format.channels = static_cast<std::uint16_t>(little_endian(fields.subspan(2, 2)));
  format.rate = little_endian(fields.subspan(4, 4));
  format.dtype = dtype_of(tag, little_endian(fields.subspan(14, 2)));
  if (format.channels == 0 || format.rate == 0) {
    throw input_error("the WAV file says that it has no channels or no sample rate: the file is damaged");
  }
  return format;
}

void skip(std::istream& from, std::uint32_t bytes) {
  const std::uint64_t padded = std::uint64_t{bytes} + bytes % 2;
  from.ignore(static_cast<std::streamsize>(padded));
  if (static_cast<std::uint64_t>(from.gcount()) != padded) {
    throw input_error("the WAV file ends before its samples begin");
  }
}

}  // namespace

std::uint32_t wav_format::sample_bytes() const noexcept {
  return dtype == "u8" ? 1 : dtype == "i16" ? 2 : 4;
}

std::string wav_format::text() const {
  return std::to_string(sample_bytes() * 8) + (dtype == "f32" ? "-bit floats, " : "-bit integers, ") +
         std::to_string(channels) + (channels == 1 ? " channel, " : " channels, ") + std::to_string(rate) + " Hz";
}

wav_format read_wav_header(std::istream& from) {
  std::array<char, 8> rest{};  // the size of all that follows, and "WAVE"
  read_exactly(from, rest);
  if (std::string_view{rest.data() + 4, 4} != "WAVE") {
    throw input_error("the file begins with RIFF but is no WAV file; say --format raw if its bytes are the samples");
  }
  std::optional<wav_format> format;
  for (;;) {
    const chunk next = read_chunk(from);
    if (next.is("fmt ")) {
      format = read_format(from, next.bytes);
    } else if (!next.is("data")) {
      skip(from, next.bytes);
    } else if (format) {
      // Programs that write to a pipe can't know the size, and say 0 or the largest.
      const bool known = next.bytes != 0 && next.bytes != unknown_size;
      format->data_bytes = known ? std::optional<std::uint64_t>{next.bytes} : std::nullopt;
      return *format;
    } else {
      throw input_error("the WAV file's samples come before their format: the file is damaged");
    }
  }
}

}  // namespace penstock::cli
