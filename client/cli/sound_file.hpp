#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sndfile.h>

#include "client/cli/input_stream.hpp"

namespace penstock::cli {

/// What the header of a sound file says.
struct sound_format {
  std::string dtype;    ///< of a sample as it is read, the wire's name: "u8", "i8", "i16", "i32", "f32"
  std::string samples;  ///< as they lie in the file: "24-bit integers"
  std::uint32_t channels = 0;
  std::uint32_t rate = 0;  ///< samples a second of each channel

  [[nodiscard]] std::size_t sample_bytes() const noexcept;
  /// "16-bit integers, 2 channels, 48000 Hz".
  [[nodiscard]] std::string text() const;
};

/// A sound file on disk, read by libsndfile. Integers of 24 bits come as i32, in the upper bits; floats of 64 bits as
/// f32.
class sound_file {
 public:
  /// From the stream's first byte; it must be a regular file and live longer. Throws input_error.
  explicit sound_file(input_stream& from);

  [[nodiscard]] const sound_format& format() const noexcept { return format_; }
  /// Rows of all channels, as the header says.
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  /// Fills `out` with whole rows; fewer only at the end.
  [[nodiscard]] std::size_t read(std::span<std::byte> out);
  /// What libsndfile found odd in the header.
  [[nodiscard]] std::vector<std::string> complaints() const;

 private:
  struct closer {
    void operator()(SNDFILE* file) const noexcept { sf_close(file); }
  };

  std::unique_ptr<SNDFILE, closer> file_;
  sound_format format_;
  std::uint64_t rows_ = 0;
};

}  // namespace penstock::cli
