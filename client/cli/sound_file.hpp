#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sndfile.h>

#include "client/cli/input_stream.hpp"

namespace penstock::cli {

/// The sample format of a sound file.
struct sound_format {
  std::string dtype;    ///< of a sample as read: "u8", "i8", "i16", "i32", "f32"
  std::string samples;  ///< in the file, such as "24-bit integers"
  std::uint32_t channels = 0;
  std::uint32_t rate = 0;  ///< samples per second and channel

  [[nodiscard]] std::size_t sample_bytes() const noexcept;
  /// "16-bit integers, 2 channels, 48000 Hz".
  [[nodiscard]] std::string text() const;
};

/// A sound file on disk, read with libsndfile. 24-bit integers become i32 in the upper bits, 64-bit floats become f32.
class sound_file {
 public:
  /// Reads from the stream's first byte. The stream must be a regular file and outlive this. Throws input_error.
  explicit sound_file(input_stream& input);

  [[nodiscard]] const sound_format& format() const noexcept { return format_; }
  /// Rows (samples of all channels) according to the header.
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  /// Fills `out` with whole rows. Fewer only at the end.
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
};

/// The header of a WAV file. Parsed here because libsndfile can't read live streams and does not report contradictions
/// between header and data.
struct wav_format {
  std::uint16_t tag = 0;  ///< 1 = integers, 3 = floats
  std::uint16_t channels = 0;
  std::uint32_t rate = 0;
  std::uint32_t bits = 0;          ///< significant bits per sample
  std::uint32_t sample_bytes = 0;  ///< of one channel
  /// Bytes of samples that follow; nullopt when the writer did not know, as in a stream: then until its end.
  std::optional<std::uint64_t> data_bytes;
  /// Contradictions between header and file, one sentence each.
  std::vector<std::string> notes;

  /// True for uncompressed integers or floats of `sample_bytes` each.
  [[nodiscard]] bool is_pcm() const noexcept { return tag == 1 || tag == 3; }
  /// The format of uncompressed samples. Throws input_error for compressed samples and unknown sizes.
  [[nodiscard]] sound_format sound() const;
};

/// Reads up to the first sample, in the extensible form too, and looks at what follows it. Throws input_error.
[[nodiscard]] wav_format read_wav_header(input_stream& input);

/// True when these bytes may start a RIFF chunk, as programs append behind the samples: four letters first.
[[nodiscard]] bool looks_like_chunk(std::span<const std::byte> bytes);

}  // namespace penstock::cli
