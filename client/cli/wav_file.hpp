#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/cli/input_stream.hpp"
#include "client/cli/sound_file.hpp"

namespace penstock::cli {

/// What a WAV file's header says. libsndfile can't read a live stream, whose end nobody knows, and does not say where
/// the header and the data disagree.
struct wav_format {
  std::uint16_t tag = 0;  ///< 1 = integers, 3 = floats
  std::uint16_t channels = 0;
  std::uint32_t rate = 0;
  std::uint32_t bits = 0;          ///< that count; the rest of a sample's bytes is padding
  std::uint32_t sample_bytes = 0;  ///< of one channel
  /// Bytes of samples that follow; unset when the writer did not know, as in a stream: until its end then.
  std::optional<std::uint64_t> data_bytes;
  /// Where the header and the file disagree, a sentence each.
  std::vector<std::string> notes;

  /// Plain integers or floats: samples of `sample_bytes` each.
  [[nodiscard]] bool is_pcm() const noexcept { return tag == 1 || tag == 3; }
  /// What plain samples are read as. Throws input_error for what is compressed, or of an unknown size.
  [[nodiscard]] sound_format sound() const;
};

/// Reads up to the first sample, in the extensible form too, and looks at what follows it. Throws input_error.
[[nodiscard]] wav_format read_wav_header(input_stream& from);

/// Whether these bytes may be the beginning of a chunk, such as programs write behind the samples: four letters first.
[[nodiscard]] bool looks_like_chunk(std::span<const std::byte> bytes);

}  // namespace penstock::cli
