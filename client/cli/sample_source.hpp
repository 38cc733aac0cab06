#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/pipeline_info.hpp>

#include "client/cli/input_stream.hpp"
#include "client/cli/npy_file.hpp"
#include "client/cli/wav_format.hpp"

namespace penstock::cli {

/// Input format: detected by its first bytes, or raw samples.
enum class input_kind : std::uint8_t { automatic, raw };

/// Reads samples from a file or a live stream in the pipeline's layout: raw bytes unchanged, sound files and .npy
/// arrays without headers and in native byte order. Never scales or mixes.
class sample_source {
 public:
  /// `channel`: the channel of a sound file to use, from 1. Throws input_error when the samples do not suit `input`, or
  /// when the format is known but unreadable. The stream must outlive this.
  sample_source(input_stream& stream, input_kind kind, std::optional<int> channel, const tensor_info& input);

  /// Fills `out`. Fewer bytes at the end, and for a live stream when `flush` has passed since the first byte. Throws
  /// input_error.
  [[nodiscard]] std::size_t read(std::span<std::byte> out, std::optional<std::chrono::nanoseconds> flush = {});
  /// True when nothing follows.
  [[nodiscard]] bool ended() const noexcept;

  /// True for a pipe, a terminal or a device, whose length is unknown.
  [[nodiscard]] bool is_live() const noexcept { return !from_.size().has_value(); }
  /// Bytes that `read` will return in total, if known.
  [[nodiscard]] std::optional<std::uint64_t> expected_bytes() const;
  /// Set for sound files.
  [[nodiscard]] const std::optional<sound_format>& sound() const noexcept { return sound_; }
  /// Contradictions between header and data, one sentence each; complete at the end.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  enum class conversion : std::uint8_t { none, swap, widen_24, narrow_64 };

  void open_wav();
  void open_sound_file();
  void open_npy(const tensor_info& input);
  void load_fortran(const npy_format& format);
  void take_channel(std::optional<int> channel, const tensor_info& input);
  [[nodiscard]] std::size_t read_rows(std::span<std::byte> out,
                                      std::optional<input_stream::clock::time_point> deadline);
  [[nodiscard]] std::size_t read_straight(std::span<std::byte> out, std::size_t row,
                                          std::optional<input_stream::clock::time_point> deadline);
  /// Reads into packed_ until it has `bytes`. False if nothing came.
  [[nodiscard]] bool gather(std::size_t bytes, std::optional<input_stream::clock::time_point> deadline);
  void convert(const std::byte* source, std::byte* target, std::size_t items) const;
  void note_end();

  input_stream& from_;
  std::optional<sound_format> sound_;
  std::optional<sound_file> file_;
  std::vector<std::byte> loaded_;  ///< an array in Fortran order, converted to C order
  std::size_t loaded_at_ = 0;
  bool is_loaded_ = false;
  bool file_ended_ = false;
  bool end_noted_ = false;
  bool is_odd_ = false;  ///< the WAV data chunk has an odd size and a padding byte

  conversion conversion_ = conversion::none;
  std::size_t item_in_ = 1;             ///< bytes per input item
  std::size_t item_out_ = 1;            ///< bytes per output item
  std::size_t row_items_ = 1;           ///< items per row: all channels
  std::size_t number_bytes_ = 1;        ///< size of the numbers that `swap` reverses
  std::optional<std::size_t> channel_;  ///< from 0
  std::uint64_t left_ = UINT64_MAX;     ///< sample bytes that the header announces and that have not been read
  std::vector<std::byte> packed_;       ///< read but not converted
  std::vector<std::string> notes_;
};

}  // namespace penstock::cli
