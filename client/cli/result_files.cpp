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
  std::string known;
  for (std::size_t at = 0; at < pipeline.outputs.size(); ++at) {
    const tensor_info& each = pipeline.outputs[at];
    known += (known.empty() ? "" : ", ") + each.name;
    if (settings_.outputs.empty() || std::ranges::count(settings_.outputs, each.name) > 0) {
      outputs_.push_back(
          {at, each, settings_.streams && each.variable && !each.shape.empty(), nullptr, nullptr, nullptr, 0});
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
  std::error_code failure;
  for (const auto& each : {path, tail}) {
    const bool counts = each == path || settings_.format == result_format::npy;
    if (counts && std::filesystem::exists(std::filesystem::symlink_status(each, failure))) {
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

void result_files::append(const result& next) {
  for (output& destination : outputs_) {
    const tensor_view& tensor = next.outputs()[destination.place];
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
}

void result_files::append_plain(output& destination, const tensor_view& tensor) {
  const auto shape = tensor.shape();
  text_rows rows{destination.info.name, tensor.dtype,    tensor.bytes, static_cast<std::uint64_t>(shape[0]),
                 destination.rows,      shape.subspan(1)};
  if (destination.stream) {
    rows.rows *= static_cast<std::uint64_t>(shape[1]);
    rows.row_shape = shape.subspan(2);
  }
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
      return;
  }
}

void result_files::append_missing(std::uint64_t frames) {
  for (output& destination : outputs_) {
    if (settings_.format != result_format::npy) {
      append_missing_plain(destination, frames);
    } else if (npy_file& array = array_of(destination, destination.info.shape); !destination.stream) {
      array.append_missing(frames);
    }
  }
}

void result_files::append_missing_plain(output& destination, std::uint64_t frames) {
  output_file& file = file_of(destination);
  for (std::uint64_t each = 0; each < frames && !destination.stream; ++each, ++destination.rows) {
    if (settings_.format == result_format::jsonl) {
      file.append(json_missing(destination.info.name, destination.rows));
      continue;
    }
    const auto frame = missing_frame(destination.info.dtype, destination.info.shape);
    if (settings_.format == result_format::raw) {
      file.append(frame);
    } else {
      file.append(csv_lines(
          {destination.info.name, destination.info.dtype, frame, 1, destination.rows, destination.info.shape}));
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
  }
}

std::vector<std::string> result_files::summary() const {
  std::vector<std::string> lines;
  for (const output& each : outputs_) {
    for (const npy_file* file : {each.array.get(), each.tail.get()}) {
      if (file != nullptr) {
        lines.push_back(summary_of(*file, each.info.dtype));
      }
    }
    if (each.file != nullptr && standard_ == nullptr) {
      lines.push_back(each.file->path().string() + "  " + std::to_string(each.rows) + " rows");
    }
  }
  return lines;
}

}  // namespace penstock::cli
