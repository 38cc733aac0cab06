#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <sndfile.h>

namespace penstock {

/// A file is no sound file that can be read. what() says why, without its name.
class sound_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The sample format of a sound file.
struct sound_format {
  std::string dtype;    ///< of a sample as read: "u8", "i8", "i16", "i32", "f32"
  std::string samples;  ///< in the file, such as "24-bit integers"
  std::uint32_t channels = 0;
  std::uint32_t rate = 0;  ///< samples per second and channel

  [[nodiscard]] std::size_t sample_bytes() const noexcept;
  /// Of a sample of all channels.
  [[nodiscard]] std::size_t row_bytes() const noexcept { return sample_bytes() * channels; }
  /// "16-bit integers, 2 channels, 48000 Hz".
  [[nodiscard]] std::string text() const;
};

/// A sound file on disk, read with libsndfile. 24-bit integers become i32 in the upper bits, 64-bit floats become f32.
class sound_file {
 public:
  /// Reads from where the descriptor of a regular file stands, which must outlive this. Throws sound_error.
  explicit sound_file(int descriptor);

  [[nodiscard]] const sound_format& format() const noexcept { return format_; }
  /// Rows (samples of all channels) according to the header.
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  /// Fills `out`, at any alignment, with whole rows, and says how many bytes these are. Fewer only at the end.
  [[nodiscard]] std::size_t read(std::span<std::byte> out);
  /// libsndfile's complaints about the header.
  [[nodiscard]] std::vector<std::string> complaints() const;

 private:
  struct closer {
    void operator()(SNDFILE* file) const noexcept { sf_close(file); }
  };

  std::unique_ptr<SNDFILE, closer> file_;
  sound_format format_;
  std::uint64_t rows_ = 0;
  // What libsndfile fills, of which one is in use.
  std::vector<short> shorts_;
  std::vector<int> ints_;
  std::vector<float> floats_;
};

}  // namespace penstock
