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
#include "client/cli/sound_file.hpp"

namespace penstock::cli {

/// How an input is read: by what it begins with, or as the samples' own bytes whatever it begins with.
enum class input_kind : std::uint8_t { automatic, raw };

/// Samples from a file or a live stream, in the pipeline's own layout: raw bytes as they are, sound files and .npy
/// arrays without their headers and in the machine's byte order. Nothing is ever scaled or mixed.
class sample_source {
 public:
  /// `channel`, from 1, takes one of a sound file. Throws input_error when the samples are not what `input` takes, or
  /// when the file is of a known kind that can't be read. `from` must live longer.
  sample_source(input_stream& from, input_kind kind, std::optional<int> channel, const tensor_info& input);

  /// Fills `out`; fewer bytes at the end, and of a live stream when `flush` has passed since the first of them came.
  /// Throws input_error.
  [[nodiscard]] std::size_t read(std::span<std::byte> out, std::optional<std::chrono::nanoseconds> flush = {});
  /// Nothing follows.
  [[nodiscard]] bool ended() const noexcept;

  /// A pipe, a terminal or a device: its end is not known.
  [[nodiscard]] bool is_live() const noexcept { return !from_.size().has_value(); }
  /// Bytes that `read` will give, where that can be known.
  [[nodiscard]] std::optional<std::uint64_t> expected_bytes() const;
  /// Set when the source is a sound.
  [[nodiscard]] const std::optional<sound_format>& sound() const noexcept { return sound_; }
  /// Where the header and the data disagree, a sentence each; complete at the end.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  enum class conversion : std::uint8_t { none, swap, widen_24, narrow_64 };

  void open_wav();
  void open_sound_file();
  void open_npy(const tensor_info& input);
  void load_fortran(const npy_format& format);
  void take_channel(std::optional<int> channel, const tensor_info& input);
  [[nodiscard]] std::size_t read_rows(std::span<std::byte> out, std::optional<input_stream::clock::time_point> by);
  [[nodiscard]] std::size_t read_straight(std::span<std::byte> out, std::size_t row,
                                          std::optional<input_stream::clock::time_point> by);
  /// Adds to packed_ so much that it has `bytes`. False if nothing came.
  [[nodiscard]] bool gather(std::size_t bytes, std::optional<input_stream::clock::time_point> by);
  void convert(const std::byte* from, std::byte* to, std::size_t items) const;
  void note_end();

  input_stream& from_;
  std::optional<sound_format> sound_;
  std::optional<sound_file> file_;
  std::vector<std::byte> loaded_;  ///< all of an array in Fortran order, as C order
  std::size_t loaded_at_ = 0;
  bool is_loaded_ = false;
  bool file_ended_ = false;
  bool end_noted_ = false;
  bool is_odd_ = false;  ///< the data chunk of a WAV file has an odd size: a byte of padding is behind it

  conversion conversion_ = conversion::none;
  std::size_t item_in_ = 1;             ///< bytes of an item as it comes
  std::size_t item_out_ = 1;            ///< and as it goes on
  std::size_t row_items_ = 1;           ///< items that lie together: all channels
  std::size_t number_bytes_ = 1;        ///< what `swap` turns around
  std::optional<std::size_t> channel_;  ///< counts from 0
  std::uint64_t left_ = UINT64_MAX;     ///< bytes of samples that the header says and that have not come yet
  std::vector<std::byte> packed_;       ///< what came and is not converted yet
  std::vector<std::string> notes_;
};

}  // namespace penstock::cli
