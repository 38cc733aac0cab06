#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/pipeline_info.hpp>
#include <penstock/result.hpp>

#include "client/cli/npy_file.hpp"
#include "client/cli/output_file.hpp"

namespace penstock::cli {

/// Output format of results.
enum class result_format : std::uint8_t { npy, raw, csv, jsonl };

/// Elements of one output, row-major, as text.
struct text_rows {
  std::string_view output;  ///< its name
  std::string_view dtype;
  std::span<const std::byte> bytes;
  std::uint64_t rows = 0;                     ///< number of lines
  std::uint64_t first = 0;                    ///< index of the first row in the output
  std::span<const std::int64_t> row_shape{};  ///< shape of a row
};

/// One line per row: comma-separated numbers; a complex number is two numbers.
[[nodiscard]] std::string csv_lines(const text_rows& rows);
/// One line per row, such as {"output":"psd","index":7,"values":[1,2]}: a number for a row without dimensions, nested
/// arrays for several, [re,im] for a complex number, true and false for bool, null for infinity and NaN.
[[nodiscard]] std::string json_lines(const text_rows& rows);
/// The line of a frame without a result: "values" is null.
[[nodiscard]] std::string json_missing(std::string_view output, std::uint64_t index);

/// Writes one file per output of a pipeline, OUTPUT.npy or in another format, or all to the standard output. Each file
/// is valid after each result. A .npy array has one shape: frames of another shape, such as a shorter last frame, go to
/// OUTPUT.tail.npy. With `streams`, variable outputs are written as one sequence of rows.
class result_files {
 public:
  struct settings {
    std::filesystem::path folder;  ///< "-" = standard output, not for npy
    result_format format = result_format::npy;
    existing_file existing = existing_file::keep;
    std::vector<std::string> outputs;  ///< their names; empty = all
    bool streams = false;
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
  };

  [[nodiscard]] std::filesystem::path path_of(const output& destination, const std::string& ending) const;
  void check_room(const output& destination) const;
  /// The output's array, created with `frame_shape` on first use.
  [[nodiscard]] npy_file& array_of(output& destination, std::span<const std::int64_t> frame_shape);
  [[nodiscard]] output_file& file_of(output& destination);
  void append_array(output& destination, const tensor_view& tensor);
  void append_plain(output& destination, const tensor_view& tensor);
  void append_missing_plain(output& destination, std::uint64_t frames);

  settings settings_;
  std::shared_ptr<output_file> standard_;  ///< set when everything goes to the standard output
  std::vector<output> outputs_;
};

}  // namespace penstock::cli
