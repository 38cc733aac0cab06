#include "client/cli/result_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>
#include <penstock/float16.hpp>

#include "base/utc_time.hpp"

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

template <class Float>
void append_float(std::string& text, Float number, std::string_view no_number) {
  if (std::isfinite(number) || no_number.empty()) {
    append_number(text, number);
  } else {
    text += no_number;
  }
}

/// `json`: a complex number is an array, infinity and NaN are null, a bool is true or false.
void append_item(std::string& text, std::string_view dtype, const std::byte* at, bool json) {
  const std::string_view no_number = json ? "null" : "";
  if (dtype == "u8") {
    append_number(text, static_cast<int>(number_at<std::uint8_t>(at)));
  } else if (dtype == "i8") {
    append_number(text, static_cast<int>(number_at<std::int8_t>(at)));
  } else if (dtype == "u16") {
    append_number(text, number_at<std::uint16_t>(at));
  } else if (dtype == "i16") {
    append_number(text, number_at<std::int16_t>(at));
  } else if (dtype == "i32") {
    append_number(text, number_at<std::int32_t>(at));
  } else if (dtype == "i64") {
    append_number(text, number_at<std::int64_t>(at));
  } else if (dtype == "bool") {
    const bool is_true = *at != std::byte{0};
    text += json ? (is_true ? "true" : "false") : (is_true ? "1" : "0");
  } else if (dtype == "f16") {
    append_float(text, static_cast<float>(number_at<float16>(at)), no_number);
  } else if (dtype == "bf16") {
    append_float(text, static_cast<float>(number_at<bfloat16>(at)), no_number);
  } else if (dtype == "f32") {
    append_float(text, number_at<float>(at), no_number);
  } else if (dtype == "f64") {
    append_float(text, number_at<double>(at), no_number);
  } else {
    text += json ? "[" : "";
    append_float(text, number_at<float>(at), no_number);
    text += ',';
    append_float(text, number_at<float>(at + sizeof(float)), no_number);
    text += json ? "]" : "";
  }
}

const std::byte* append_array(std::string& text, std::string_view dtype, std::span<const std::int64_t> shape,
                              const std::byte* at) {
  if (shape.empty()) {
    append_item(text, dtype, at, true);
    return at + item_bytes(dtype);
  }
  text += '[';
  for (std::int64_t each = 0; each < shape.front(); ++each) {
    text += each == 0 ? "" : ",";
    at = append_array(text, dtype, shape.subspan(1), at);
  }
  text += ']';
  return at;
}

/// `number`: one, or none.
std::string json_beginning(std::string_view output, std::uint64_t index, std::span<const row_number> number) {
  std::string text = R"({"output":)" +
                     nlohmann::json(output).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                     R"(,"index":)" + std::to_string(index);
  if (!number.empty()) {
    text += R"(,"sample":)" + std::to_string(number.front().sample);
    text += number.front().time_ns ? R"(,"time":")" + print_utc_time(*number.front().time_ns) + '"' : "";
    text += number.front().filled ? R"(,"filled":)" + std::to_string(*number.front().filled) : "";
  }
  return text + R"(,"values":)";
}

/// The number of row `row`, or none.
std::span<const row_number> number_of(const text_rows& rows, std::uint64_t row) {
  return rows.numbers.empty() ? rows.numbers : rows.numbers.subspan(row, 1);
}

}  // namespace

std::string csv_lines(const text_rows& rows) {
  std::string text;
  const std::size_t item = item_bytes(rows.dtype);
  const std::size_t items = rows.rows == 0 ? 0 : rows.bytes.size() / item / rows.rows;
  const std::byte* at = rows.bytes.data();
  for (std::uint64_t row = 0; row < rows.rows; ++row) {
    std::string_view separator;
    for (const row_number& number : number_of(rows, row)) {
      append_number(text, number.sample);
      text += number.time_ns ? "," + print_utc_time(*number.time_ns) : "";
      text += number.filled ? "," + std::to_string(*number.filled) : "";
      separator = ",";
    }
    for (std::size_t each = 0; each < items; ++each, at += item) {
      text += std::exchange(separator, ",");
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
    text += json_beginning(rows.output, rows.first + row, number_of(rows, row));
    at = append_array(text, rows.dtype, rows.row_shape, at);
    text += "}\n";
  }
  return text;
}

std::string json_missing(std::string_view output, std::uint64_t index, std::span<const row_number> number) {
  return json_beginning(output, index, number) + "null}\n";
}

namespace {

/// A stage's name comes from the daemon's configuration: it must not lead out of the folder.
std::string file_name(const std::string& output, const std::string& ending) {
  std::string name = output + ending;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

std::string summary_of(const npy_file& file, const std::string& dtype) {
  std::string text = file.path().string() + "  " + dtype + " [" + std::to_string(file.frames());
  for (const std::int64_t extent : file.frame_shape()) {
    text += ", " + std::to_string(extent);
  }
  return text + "]";
}

std::string ending_of(result_format format) {
  switch (format) {
    case result_format::npy:
      return ".npy";
    case result_format::raw:
      return ".raw";
    case result_format::csv:
      return ".csv";
    case result_format::jsonl:
      return ".jsonl";
  }
  return "";
}

}  // namespace

result_files::result_files(settings settings, const pipeline_info& pipeline) : settings_(std::move(settings)) {
  frame_samples_ = pipeline.input.samples();
  std::string known;
  for (std::size_t at = 0; at < pipeline.outputs.size(); ++at) {
    const tensor_info& each = pipeline.outputs[at];
    known += (known.empty() ? "" : ", ") + each.name;
    if (settings_.outputs.empty() || std::ranges::count(settings_.outputs, each.name) > 0) {
      outputs_.push_back(
          {at, each, settings_.streams && each.variable && !each.shape.empty(), nullptr, nullptr, nullptr, 0});
      outputs_.back().next_sample = settings_.numbers ? settings_.numbers->index : 0;
    }
  }
  for (const std::string& wanted : settings_.outputs) {
    if (std::ranges::none_of(outputs_, [&](const output& each) { return each.info.name == wanted; })) {
      throw std::runtime_error("the pipeline has no output \"" + wanted + "\"; it has " + known);
    }
  }
  if (settings_.folder == "-") {
    if (settings_.format == result_format::npy) {
      throw std::runtime_error("a .npy file can't go to the standard output: say --format csv, jsonl or raw");
    }
    if (settings_.format != result_format::jsonl && outputs_.size() > 1) {
      throw std::runtime_error("the pipeline has several outputs: choose one with --output (" + known +
                               "), or say --format jsonl");
    }
    standard_ = std::make_shared<output_file>();
    return;
  }
  std::error_code failure;
  std::filesystem::create_directories(settings_.folder, failure);
  if (failure) {
    throw std::runtime_error("can't make the folder " + settings_.folder.string() + ": " + failure.message());
  }
  for (const output& each : outputs_) {
    check_room(each);
  }
}

std::filesystem::path result_files::path_of(const output& destination, const std::string& ending) const {
  return settings_.folder / file_name(destination.info.name, ending);
}

/// Runs before anything is sent: refuses existing results, or removes an old tail file.
void result_files::check_room(const output& destination) const {
  const auto path = path_of(destination, ending_of(settings_.format));
  const auto tail = path_of(destination, ".tail.npy");
  std::vector<std::filesystem::path> all{path};
  if (settings_.format == result_format::npy) {
    all.push_back(tail);
  }
  if (settings_.numbers && (settings_.format == result_format::npy || settings_.format == result_format::raw)) {
    all.push_back(path_of(destination, ".index.npy"));
    all.push_back(path_of(destination, ".time.npy"));
    all.push_back(path_of(destination, ".filled.npy"));
  }
  std::error_code failure;
  for (const auto& each : all) {
    if (std::filesystem::exists(std::filesystem::symlink_status(each, failure))) {
      if (settings_.existing == existing_file::keep) {
        throw std::runtime_error(each.string() + " is there already: choose another folder, or say --force");
      }
      if (each == tail) {
        std::filesystem::remove(tail, failure);
      }
    }
  }
}

npy_file& result_files::array_of(output& destination, std::span<const std::int64_t> frame_shape) {
  if (destination.array == nullptr) {
    const auto shape = destination.stream ? frame_shape.subspan(1) : frame_shape;
    destination.array =
        std::make_unique<npy_file>(path_of(destination, ".npy"), settings_.existing, destination.info.dtype, shape);
  }
  return *destination.array;
}

output_file& result_files::file_of(output& destination) {
  if (destination.file == nullptr) {
    destination.file =
        standard_ != nullptr
            ? standard_
            : std::make_shared<output_file>(path_of(destination, ending_of(settings_.format)), settings_.existing);
  }
  return *destination.file;
}

std::span<const row_number> result_files::number_rows(output& destination, std::int64_t first, std::uint64_t rows) {
  numbers_.clear();
  if (!settings_.numbers) {
    return {};
  }
  const auto steps = destination.stream ? static_cast<std::int64_t>(destination.info.steps) : frame_samples_;
  const auto indices = destination.stream ? static_cast<std::int64_t>(destination.info.indices) : 1;
  const auto parts = [&](std::uint64_t row) { return destination.next_part + static_cast<std::int64_t>(row) * steps; };
  for (std::uint64_t row = 0; row < rows; ++row) {
    row_number& number = numbers_.emplace_back(row_number{first + parts(row) / indices});
    if (settings_.numbers->time_ns) {
      number.time_ns = settings_.numbers->time_of(number.sample);
    }
    if (settings_.filled) {
      number.filled = destination.next_filled;
    }
  }
  destination.next_sample = first + parts(rows) / indices;
  destination.next_part = parts(rows) % indices;
  return numbers_;
}

void result_files::append_numbers(output& destination, std::span<const row_number> numbers) {
  if (!settings_.numbers) {
    return;
  }
  const auto append = [&](std::unique_ptr<npy_file>& file, const char* ending, const auto& number_of_row) {
    if (file == nullptr) {
      file = std::make_unique<npy_file>(path_of(destination, ending), settings_.existing, "i64",
                                        std::span<const std::int64_t>{});
    }
    std::vector<std::int64_t> column(numbers.size());
    std::ranges::transform(numbers, column.begin(), number_of_row);
    if (!column.empty()) {
      file->append(std::as_bytes(std::span(column)));
    }
  };
  append(destination.index, ".index.npy", [](const row_number& number) { return number.sample; });
  if (settings_.numbers->time_ns) {
    append(destination.times, ".time.npy", [](const row_number& number) { return number.time_ns.value_or(0); });
  }
  if (settings_.filled) {
    append(destination.filled, ".filled.npy", [](const row_number& number) { return number.filled.value_or(0); });
  }
}

void result_files::append(const result& next) {
  for (output& destination : outputs_) {
    const tensor_view& tensor = next.outputs()[destination.place];
    // A daemon from before accounts has given none: the rows follow one another.
    if (next.account()) {
      destination.next_sample = tensor.index;
      destination.next_part = 0;
      destination.next_filled = next.account()->filled;
    }
    if (settings_.format == result_format::npy) {
      append_array(destination, tensor);
    } else {
      append_plain(destination, tensor);
    }
  }
}

void result_files::append_array(output& destination, const tensor_view& tensor) {
  const auto frame_shape = tensor.shape().subspan(1);
  npy_file& array = array_of(destination, frame_shape);
  const bool fits = destination.stream || std::ranges::equal(array.frame_shape(), frame_shape);
  if (!fits && destination.tail == nullptr) {
    destination.tail =
        std::make_unique<npy_file>(path_of(destination, ".tail.npy"), settings_.existing, tensor.dtype, frame_shape);
  }
  (fits ? array : *destination.tail).append(tensor.bytes);
  append_numbers(destination, number_rows(destination, destination.next_sample, rows_of(destination, tensor)));
}

void result_files::append_plain(output& destination, const tensor_view& tensor) {
  const auto shape = tensor.shape();
  text_rows rows{destination.info.name, tensor.dtype,    tensor.bytes, static_cast<std::uint64_t>(shape[0]),
                 destination.rows,      shape.subspan(1)};
  rows.rows = rows_of(destination, tensor);
  if (destination.stream) {
    rows.row_shape = shape.subspan(2);
  }
  rows.numbers = number_rows(destination, destination.next_sample, rows.rows);
  destination.rows += rows.rows;
  switch (settings_.format) {
    case result_format::csv:
      file_of(destination).append(csv_lines(rows));
      return;
    case result_format::jsonl:
      file_of(destination).append(json_lines(rows));
      return;
    default:
      file_of(destination).append(tensor.bytes);
      append_numbers(destination, rows.numbers);
      return;
  }
}

void result_files::append_missing(std::uint64_t frames) {
  for (output& destination : outputs_) {
    destination.next_filled = 0;
    if (settings_.format != result_format::npy) {
      append_missing_plain(destination, frames);
    } else if (npy_file& array = array_of(destination, destination.info.shape); !destination.stream) {
      array.append_missing(frames);
      append_numbers(destination, number_rows(destination, destination.next_sample, frames));
    }
  }
}

void result_files::append_missing_plain(output& destination, std::uint64_t frames) {
  output_file& file = file_of(destination);
  for (std::uint64_t each = 0; each < frames && !destination.stream; ++each, ++destination.rows) {
    const auto number = number_rows(destination, destination.next_sample, 1);
    if (settings_.format == result_format::jsonl) {
      file.append(json_missing(destination.info.name, destination.rows, number));
      continue;
    }
    const auto frame = missing_frame(destination.info.dtype, destination.info.shape);
    if (settings_.format == result_format::raw) {
      file.append(frame);
      append_numbers(destination, number);
    } else {
      file.append(csv_lines(
          {destination.info.name, destination.info.dtype, frame, 1, destination.rows, destination.info.shape, number}));
    }
  }
}

void result_files::finish() {
  for (output& each : outputs_) {
    if (settings_.format == result_format::npy) {
      (void)array_of(each, each.info.shape);
    } else {
      (void)file_of(each);
    }
    if (settings_.format == result_format::npy || settings_.format == result_format::raw) {
      append_numbers(each, {});
    }
  }
}

std::vector<std::string> result_files::summary() const {
  std::vector<std::string> lines;
  for (const output& each : outputs_) {
    const std::pair<const npy_file*, std::string> files[] = {{each.array.get(), each.info.dtype},
                                                             {each.tail.get(), each.info.dtype},
                                                             {each.index.get(), "i64"},
                                                             {each.times.get(), "i64"},
                                                             {each.filled.get(), "i64"}};
    for (const auto& [file, dtype] : files) {
      if (file != nullptr) {
        lines.push_back(summary_of(*file, dtype));
      }
    }
    if (each.file != nullptr && standard_ == nullptr) {
      lines.push_back(each.file->path().string() + "  " + std::to_string(each.rows) + " rows");
    }
  }
  return lines;
}

}  // namespace penstock::cli
