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

}  // namespace

result_files::result_files(std::filesystem::path folder, const pipeline_info& pipeline, bool in_session)
    : folder_(std::move(folder)) {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure) {
    throw std::runtime_error("can't make the folder " + folder_.string() + ": " + failure.message());
  }
  for (const tensor_info& each : pipeline.outputs) {
    outputs_.push_back({each, in_session && each.variable && !each.shape.empty(), nullptr, nullptr});
  }
}

npy_file& result_files::array_of(output& of, std::span<const std::int64_t> frame_shape) {
  if (of.file == nullptr) {
    const auto shape = of.stream ? frame_shape.subspan(1) : frame_shape;
    of.file = std::make_unique<npy_file>(folder_ / file_name(of.info.name, ".npy"), of.info.dtype, shape);
  }
  return *of.file;
}

void result_files::append(const result& next) {
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    output& to = outputs_[at];
    const tensor_view& from = next.outputs()[at];
    const auto frame_shape = from.shape().subspan(1);
    npy_file& array = array_of(to, frame_shape);
    const bool fits = to.stream || std::ranges::equal(array.frame_shape(), frame_shape);
    if (!fits && to.tail == nullptr) {
      to.tail = std::make_unique<npy_file>(folder_ / file_name(to.info.name, ".tail.npy"), from.dtype, frame_shape);
    }
    (fits ? array : *to.tail).append(from.bytes);
  }
}

void result_files::append_missing(std::uint64_t frames) {
  for (output& to : outputs_) {
    npy_file& array = array_of(to, to.info.shape);
    if (!to.stream) {
      array.append_missing(frames);
    }
  }
}

void result_files::finish() {
  for (output& each : outputs_) {
    array_of(each, each.info.shape).finish();
    if (each.tail != nullptr) {
      each.tail->finish();
    }
  }
}

std::vector<std::string> result_files::summary() const {
  std::vector<std::string> lines;
  for (const output& each : outputs_) {
    for (const npy_file* file : {each.file.get(), each.tail.get()}) {
      if (file != nullptr) {
        lines.push_back(summary_of(*file, each.info.dtype));
      }
    }
  }
  return lines;
}

}  // namespace penstock::cli
