#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/pipeline_info.hpp>

#include "client/cli/wav_file.hpp"

namespace penstock::cli {

enum class input_format : std::uint8_t { automatic, raw, wav };

/// Samples from a file or a stream, in the pipeline's own layout: raw bytes as they are, a WAV file's without its
/// header, and one channel of several where one is asked for. Nothing is ever converted or mixed.
class sample_source {
 public:
  /// `automatic` takes a stream that begins with "RIFF" for WAV and any other for raw. `channel` counts from 1.
  /// Throws input_error when the samples are not what `input` takes. `from` must live longer.
  sample_source(std::istream& from, input_format format, std::optional<int> channel, const tensor_info& input);

  /// Fills `out` as far as there are samples; fewer than its size only at the end.
  [[nodiscard]] std::size_t read(std::span<std::byte> out);

  /// Set when the source is a WAV file.
  [[nodiscard]] const std::optional<wav_format>& wav() const noexcept { return wav_; }

 private:
  [[nodiscard]] std::size_t read_bytes(std::span<std::byte> out);
  [[nodiscard]] std::size_t read_channel(std::span<std::byte> out);

  std::istream& from_;
  std::vector<std::byte> ahead_;  ///< bytes that were looked at to tell the format
  std::optional<wav_format> wav_;
  std::optional<std::size_t> channel_;  ///< counts from 0
  std::uint64_t left_ = UINT64_MAX;     ///< of the WAV file's data chunk
  std::vector<std::byte> interleaved_;
};

}  // namespace penstock::cli
