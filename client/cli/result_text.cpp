#include "client/cli/result_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

namespace penstock::cli {
namespace {

template <class Number>
Number number_at(const std::byte* at) {
  Number number{};
  std::memcpy(&number, at, sizeof number);
  return number;
}

template <class Number>
void append_number(std::string& to, Number number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number);
  to.append(text.data(), end.ptr);
}

void append_float(std::string& to, float number, std::string_view no_number) {
  if (std::isfinite(number) || no_number.empty()) {
    append_number(to, number);
  } else {
    to += no_number;
  }
}

std::size_t item_bytes(std::string_view dtype) {
  return dtype == "c64" ? 8 : dtype == "i32" || dtype == "f32" ? 4 : dtype == "i16" ? 2 : 1;
}

/// `json`: a complex number is an array, and what is no number is null.
void append_item(std::string& to, std::string_view dtype, const std::byte* at, bool json) {
  const std::string_view no_number = json ? "null" : "";
  if (dtype == "u8") {
    append_number(to, static_cast<int>(number_at<std::uint8_t>(at)));
  } else if (dtype == "i8") {
    append_number(to, static_cast<int>(number_at<std::int8_t>(at)));
  } else if (dtype == "i16") {
    append_number(to, number_at<std::int16_t>(at));
  } else if (dtype == "i32") {
    append_number(to, number_at<std::int32_t>(at));
  } else if (dtype == "f32") {
    append_float(to, number_at<float>(at), no_number);
  } else {
    to += json ? "[" : "";
    append_float(to, number_at<float>(at), no_number);
    to += ',';
    append_float(to, number_at<float>(at + sizeof(float)), no_number);
    to += json ? "]" : "";
  }
}

const std::byte* append_array(std::string& to, std::string_view dtype, std::span<const std::int64_t> shape,
                              const std::byte* at) {
  if (shape.empty()) {
    append_item(to, dtype, at, true);
    return at + item_bytes(dtype);
  }
  to += '[';
  for (std::int64_t each = 0; each < shape.front(); ++each) {
    to += each == 0 ? "" : ",";
    at = append_array(to, dtype, shape.subspan(1), at);
  }
  to += ']';
  return at;
}

std::string json_beginning(std::string_view output, std::uint64_t index) {
  return R"({"output":)" + nlohmann::json(output).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         R"(,"index":)" + std::to_string(index) + R"(,"values":)";
}

}  // namespace

std::string csv_lines(const text_rows& rows) {
  std::string text;
  const std::size_t item = item_bytes(rows.dtype);
  const std::size_t items = rows.rows == 0 ? 0 : rows.bytes.size() / item / rows.rows;
  const std::byte* at = rows.bytes.data();
  for (std::uint64_t row = 0; row < rows.rows; ++row) {
    for (std::size_t each = 0; each < items; ++each, at += item) {
      text += each == 0 ? "" : ",";
      append_item(text, rows.dtype, at, false);
    }
    text += '\n';
  }
  return text;
}

std::string json_lines(const text_rows& rows) {
  std::string text;
  const std::byte* at = rows.bytes.data();
  for (std::uint64_t row = 0; row < rows.rows; ++row) {
    text += json_beginning(rows.output, rows.first + row);
    at = append_array(text, rows.dtype, rows.row_shape, at);
    text += "}\n";
  }
  return text;
}

std::string json_missing(std::string_view output, std::uint64_t index) {
  return json_beginning(output, index) + "null}\n";
}

}  // namespace penstock::cli
