#include "base/sound_file.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include <fcntl.h>

namespace penstock {
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

}  // namespace

std::size_t sound_format::sample_bytes() const noexcept {
  return dtype == "u8" || dtype == "i8" ? 1 : dtype == "i16" ? 2 : 4;
}

std::string sound_format::text() const {
  return samples + ", " + std::to_string(channels) + (channels == 1 ? " channel, " : " channels, ") +
         std::to_string(rate) + " Hz";
}

sound_file::sound_file(int descriptor) {
  SF_INFO info{};
  // A copy: libsndfile closes a descriptor that it can't read, even if it was told not to.
  file_.reset(sf_open_fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3), SFM_READ, &info, SF_TRUE));
  if (file_ == nullptr) {
    throw sound_error(sf_strerror(nullptr));
  }
  if (info.channels < 1 || info.samplerate < 1) {
    throw sound_error("It says that it has no channels or no sample rate: it is damaged.");
  }
  format_ = format_of(info);
  rows_ = static_cast<std::uint64_t>(std::max<sf_count_t>(info.frames, 0));
}

std::size_t sound_file::read(std::span<std::byte> out) {
  const std::size_t row = format_.row_bytes();
  const std::size_t numbers = out.size() / row * format_.channels;
  const auto fill = [&](auto& from, auto read_numbers) {
    from.resize(std::max(from.size(), numbers));
    const sf_count_t got = read_numbers(file_.get(), from.data(), static_cast<sf_count_t>(numbers));
    return static_cast<std::size_t>(std::max<sf_count_t>(got, 0)) / format_.channels * format_.channels;
  };
  std::size_t got = 0;
  if (format_.sample_bytes() == 1) {  // for which libsndfile has no function
    got = fill(shorts_, sf_read_short);
    const int zero = format_.dtype == "u8" ? 128 : 0;
    std::transform(shorts_.begin(), shorts_.begin() + static_cast<std::ptrdiff_t>(got), out.begin(),
                   [zero](short each) { return static_cast<std::byte>((each >> 8) + zero); });
  } else if (format_.dtype == "i16") {
    got = fill(shorts_, sf_read_short);
    std::memcpy(out.data(), shorts_.data(), got * sizeof(short));
  } else if (format_.dtype == "i32") {
    got = fill(ints_, sf_read_int);
    std::memcpy(out.data(), ints_.data(), got * sizeof(int));
  } else {
    got = fill(floats_, sf_read_float);
    std::memcpy(out.data(), floats_.data(), got * sizeof(float));
  }
  return got * format_.sample_bytes();
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

}  // namespace penstock
