#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace penstock::cli {

/// What results are written as.
enum class result_format : std::uint8_t { npy, raw, csv, jsonl };

/// Elements of one output, row-major, as text.
struct text_rows {
  std::string_view output;  ///< its name
  std::string_view dtype;
  std::span<const std::byte> bytes;
  std::uint64_t rows = 0;                     ///< lines that come of them
  std::uint64_t first = 0;                    ///< which row of the output the first line is
  std::span<const std::int64_t> row_shape{};  ///< of each
};

/// A line for each row: its numbers with commas between, a complex number as two.
[[nodiscard]] std::string csv_lines(const text_rows& rows);
/// A line for each row, such as {"output":"psd","index":7,"values":[1,2]}; a number for a row of no dimensions, arrays
/// of arrays for more; [re,im] for a complex number; null for what is no number in JSON.
[[nodiscard]] std::string json_lines(const text_rows& rows);
/// The line of a frame that has no result: "values" is null.
[[nodiscard]] std::string json_missing(std::string_view output, std::uint64_t index);

}  // namespace penstock::cli
