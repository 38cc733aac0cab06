#include "client/cli/result_files.hpp"

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace penstock::cli {
namespace {

/// A stage's name is the configuration's: it must not lead out of the folder.
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

result_files::result_files(settings how, const pipeline_info& pipeline) : how_(std::move(how)) {
  std::string known;
  for (std::size_t at = 0; at < pipeline.outputs.size(); ++at) {
    const tensor_info& each = pipeline.outputs[at];
    known += (known.empty() ? "" : ", ") + each.name;
    if (how_.outputs.empty() || std::ranges::count(how_.outputs, each.name) > 0) {
      outputs_.push_back(
          {at, each, how_.streams && each.variable && !each.shape.empty(), nullptr, nullptr, nullptr, 0});
    }
  }
  for (const std::string& wanted : how_.outputs) {
    if (std::ranges::none_of(outputs_, [&](const output& each) { return each.info.name == wanted; })) {
      throw std::runtime_error("the pipeline has no output \"" + wanted + "\"; it has " + known);
    }
  }
  if (how_.folder == "-") {
    if (how_.format == result_format::npy) {
      throw std::runtime_error("a .npy file can't go to the standard output: say --format csv, jsonl or raw");
    }
    if (how_.format != result_format::jsonl && outputs_.size() > 1) {
      throw std::runtime_error("the pipeline has several outputs: choose one with --output (" + known +
                               "), or say --format jsonl");
    }
    standard_ = std::make_shared<output_file>();
    return;
  }
  std::error_code failure;
  std::filesystem::create_directories(how_.folder, failure);
  if (failure) {
    throw std::runtime_error("can't make the folder " + how_.folder.string() + ": " + failure.message());
  }
  for (const output& each : outputs_) {
    check_room(each);
  }
}

std::filesystem::path result_files::path_of(const output& of, const std::string& ending) const {
  return how_.folder / file_name(of.info.name, ending);
}

/// Before anything is sent: refuses results of before, or takes away a tail that would seem to belong to the new ones.
void result_files::check_room(const output& of) const {
  const auto path = path_of(of, ending_of(how_.format));
  const auto tail = path_of(of, ".tail.npy");
  std::error_code failure;
  for (const auto& each : {path, tail}) {
    const bool counts = each == path || how_.format == result_format::npy;
    if (counts && std::filesystem::exists(std::filesystem::symlink_status(each, failure))) {
      if (how_.existing == existing_file::keep) {
        throw std::runtime_error(each.string() + " is there already: choose another folder, or say --force");
      }
      if (each == tail) {
        std::filesystem::remove(tail, failure);
      }
    }
  }
}

npy_file& result_files::array_of(output& of, std::span<const std::int64_t> frame_shape) {
  if (of.array == nullptr) {
    const auto shape = of.stream ? frame_shape.subspan(1) : frame_shape;
    of.array = std::make_unique<npy_file>(path_of(of, ".npy"), how_.existing, of.info.dtype, shape);
  }
  return *of.array;
}

output_file& result_files::file_of(output& of) {
  if (of.file == nullptr) {
    of.file = standard_ != nullptr ? standard_
                                   : std::make_shared<output_file>(path_of(of, ending_of(how_.format)), how_.existing);
  }
  return *of.file;
}

void result_files::append(const result& next) {
  for (output& to : outputs_) {
    const tensor_view& from = next.outputs()[to.place];
    if (how_.format == result_format::npy) {
      append_array(to, from);
    } else {
      append_plain(to, from);
    }
  }
}

void result_files::append_array(output& to, const tensor_view& from) {
  const auto frame_shape = from.shape().subspan(1);
  npy_file& array = array_of(to, frame_shape);
  const bool fits = to.stream || std::ranges::equal(array.frame_shape(), frame_shape);
  if (!fits && to.tail == nullptr) {
    to.tail = std::make_unique<npy_file>(path_of(to, ".tail.npy"), how_.existing, from.dtype, frame_shape);
  }
  (fits ? array : *to.tail).append(from.bytes);
}

void result_files::append_plain(output& to, const tensor_view& from) {
  const auto shape = from.shape();
  text_rows rows{to.info.name, from.dtype, from.bytes, static_cast<std::uint64_t>(shape[0]), to.rows, shape.subspan(1)};
  if (to.stream) {
    rows.rows *= static_cast<std::uint64_t>(shape[1]);
    rows.row_shape = shape.subspan(2);
  }
  to.rows += rows.rows;
  switch (how_.format) {
    case result_format::csv:
      file_of(to).append(csv_lines(rows));
      return;
    case result_format::jsonl:
      file_of(to).append(json_lines(rows));
      return;
    default:
      file_of(to).append(from.bytes);
      return;
  }
}

void result_files::append_missing(std::uint64_t frames) {
  for (output& to : outputs_) {
    if (how_.format != result_format::npy) {
      append_missing_plain(to, frames);
    } else if (npy_file& array = array_of(to, to.info.shape); !to.stream) {
      array.append_missing(frames);
    }
  }
}

void result_files::append_missing_plain(output& to, std::uint64_t frames) {
  output_file& file = file_of(to);
  for (std::uint64_t each = 0; each < frames && !to.stream; ++each, ++to.rows) {
    if (how_.format == result_format::jsonl) {
      file.append(json_missing(to.info.name, to.rows));
      continue;
    }
    const auto frame = missing_frame(to.info.dtype, to.info.shape);
    if (how_.format == result_format::raw) {
      file.append(frame);
    } else {
      file.append(csv_lines({to.info.name, to.info.dtype, frame, 1, to.rows, to.info.shape}));
    }
  }
}

void result_files::finish() {
  for (output& each : outputs_) {
    if (how_.format == result_format::npy) {
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
