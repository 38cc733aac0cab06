#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sound_file.hpp"
#include "client/cli/input_stream.hpp"

namespace penstock::cli {

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
