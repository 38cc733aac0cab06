#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <stdexcept>
#include <string>

namespace penstock::cli {

/// A file that is not what it says, or that the pipeline can't take. The text says what to do.
class input_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a WAV file's header says.
struct wav_format {
  std::string dtype;  ///< of a sample, as the wire calls it: "u8", "i16", "i32", "f32"
  std::uint16_t channels = 0;
  std::uint32_t rate = 0;  ///< samples a second of each channel
  /// Bytes of samples that follow; unset when the writer did not know, as in a stream: until its end then.
  std::optional<std::uint64_t> data_bytes;

  [[nodiscard]] std::uint32_t sample_bytes() const noexcept;
  /// "16-bit integers, 2 channels, 48000 Hz".
  [[nodiscard]] std::string text() const;
};

/// Reads what follows the four bytes "RIFF", up to the first sample: PCM of 8, 16 and 32 bits and 32-bit floats, also
/// in the extensible form. Throws input_error for anything else.
[[nodiscard]] wav_format read_wav_header(std::istream& from);

}  // namespace penstock::cli
