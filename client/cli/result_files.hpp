#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/pipeline_info.hpp>
#include <penstock/result.hpp>

#include "client/cli/npy_file.hpp"
#include "client/cli/output_file.hpp"
#include "client/cli/sample_time.hpp"

namespace penstock::cli {

/// Output format of results.
enum class result_format : std::uint8_t { npy, raw, csv, jsonl };

/// Which sample a row stands at.
struct row_number {
  std::int64_t sample = 0;
  std::optional<std::int64_t> time_ns{};
  std::optional<std::uint32_t> filled{};  ///< samples that are filled in, of those that its result is of
};

/// Elements of one output, row-major, as text.
struct text_rows {
  std::string_view output;  ///< its name
  std::string_view dtype;
  std::span<const std::byte> bytes;
  std::uint64_t rows = 0;                     ///< number of lines
  std::uint64_t first = 0;                    ///< index of the first row in the output
  std::span<const std::int64_t> row_shape{};  ///< shape of a row
  std::span<const row_number> numbers{};      ///< of the rows; none where they are not to be written
};

/// One line per row: comma-separated numbers; a complex number is two numbers. The row's number, its time and how many
/// samples are filled in come first.
[[nodiscard]] std::string csv_lines(const text_rows& rows);
/// One line per row, such as {"output":"psd","index":7,"values":[1,2]}: a number for a row without dimensions, nested
/// arrays for several, [re,im] for a complex number, true and false for bool, null for infinity and NaN. The row's
/// number and time are "sample" and "time"; "filled" says how many samples are filled in.
[[nodiscard]] std::string json_lines(const text_rows& rows);
/// The line of a frame without a result: "values" is null.
[[nodiscard]] std::string json_missing(std::string_view output, std::uint64_t index,
                                       std::span<const row_number> number = {});

/// Writes one file per output of a pipeline, OUTPUT.npy or in another format, or all to the standard output. Each file
/// is valid after each result. A .npy array has one shape: frames of another shape, such as a shorter last frame, go to
/// OUTPUT.tail.npy. With `streams`, variable outputs are written as one sequence of rows. With `numbers`, each row has
/// the number of the sample at which it stands, and its time: text has them in its lines, other formats in
/// OUTPUT.index.npy and OUTPUT.time.npy (i64; nanoseconds since 1970), with those of the tail at their ends. With
/// `filled` too, it has the number of filled samples of its result there, and in OUTPUT.filled.npy.
class result_files {
 public:
  struct settings {
    std::filesystem::path folder;  ///< "-" = standard output, not for npy
    result_format format = result_format::npy;
    existing_file existing = existing_file::keep;
    std::vector<std::string> outputs;  ///< their names; empty = all
    bool streams = false;
    std::optional<sample_numbers> numbers{};  ///< of the samples that are sent
    bool filled = false;                      ///< some of them may be filled in; only with numbers
  };

  /// Creates the folder if missing. Throws std::runtime_error when it or a file can't be written, or when a file exists
  /// and must be kept; so do the other functions.
  result_files(settings settings, const pipeline_info& pipeline);

  /// Appends the frames of a result.
  void append(const result& next);
  /// Appends placeholders for frames without a result. A stream skips them, as their number of rows is unknown.
  void append_missing(std::uint64_t frames);
  /// Creates the files of outputs without frames.
  void finish();

  /// Such as "psd.npy [66, 513] f32", one per file; empty for the standard output.
  [[nodiscard]] std::vector<std::string> summary() const;

 private:
  struct output {
    std::size_t place = 0;  ///< index in a result
    tensor_info info;
    bool stream = false;
    std::unique_ptr<npy_file> array;
    std::unique_ptr<npy_file> tail;
    std::shared_ptr<output_file> file;  ///< for the other formats
    std::uint64_t rows = 0;             ///< written to `file`
    std::unique_ptr<npy_file> index{};  ///< of the rows' numbers
    std::unique_ptr<npy_file> times{};
    std::unique_ptr<npy_file> filled{};
    std::int64_t next_sample = 0;   ///< at which the next row stands
    std::int64_t next_part = 0;     ///< and how many parts of 1 / indices of a sample behind it
    std::uint32_t next_filled = 0;  ///< of the result that it is of
  };

  /// Rows of a tensor: frames, or of a stream the indices of the dimension behind them.
  [[nodiscard]] static std::uint64_t rows_of(const output& destination, const tensor_view& tensor) {
    const auto frames = static_cast<std::uint64_t>(tensor.shape()[0]);
    return destination.stream ? frames * static_cast<std::uint64_t>(tensor.shape()[1]) : frames;
  }
  [[nodiscard]] std::filesystem::path path_of(const output& destination, const std::string& ending) const;
  void check_room(const output& destination) const;
  /// The output's array, created with `frame_shape` on first use.
  [[nodiscard]] npy_file& array_of(output& destination, std::span<const std::int64_t> frame_shape);
  [[nodiscard]] output_file& file_of(output& destination);
  void append_array(output& destination, const tensor_view& tensor);
  void append_plain(output& destination, const tensor_view& tensor);
  /// The numbers of the next rows, of which the first stands at that sample; none without settings::numbers.
  [[nodiscard]] std::span<const row_number> number_rows(output& destination, std::int64_t first, std::uint64_t rows);
  void append_numbers(output& destination, std::span<const row_number> numbers);
  void append_missing_plain(output& destination, std::uint64_t frames);

  settings settings_;
  std::int64_t frame_samples_ = 1;         ///< from one frame to the next
  std::vector<row_number> numbers_;        ///< of the rows that are being written
  std::shared_ptr<output_file> standard_;  ///< set when everything goes to the standard output
  std::vector<output> outputs_;
};

}  // namespace penstock::cli
