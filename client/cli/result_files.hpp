#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/pipeline_info.hpp>
#include <penstock/result.hpp>

#include "client/cli/npy_file.hpp"

namespace penstock::cli {

/// One OUTPUT.npy for each output of a pipeline. Frames of another shape than the first ones (the last, shorter frame
/// of a variable pipeline) go to OUTPUT.tail.npy: an array has one shape. In a session a variable output is one long
/// stream: the rows of all its frames one after the other, however many each has.
class result_files {
 public:
  /// Makes the folder where it is missing. Throws std::runtime_error when that or a file can't be written; so do
  /// others.
  result_files(std::filesystem::path folder, const pipeline_info& pipeline, bool in_session);

  /// The next result's frames.
  void append(const result& next);
  /// In place of the next frames, which have no result. A stream goes on without them: nobody knows their rows.
  void append_missing(std::uint64_t frames);
  /// Completes the files. Without it they say that they are empty.
  void finish();

  /// "psd.npy [66, 513] f32", one a file.
  [[nodiscard]] std::vector<std::string> summary() const;

 private:
  struct output {
    tensor_info info;
    bool stream = false;
    std::unique_ptr<npy_file> file;
    std::unique_ptr<npy_file> tail;
  };

  /// The output's array; `frame_shape` is that of its frames where there is none yet.
  [[nodiscard]] npy_file& array_of(output& of, std::span<const std::int64_t> frame_shape);

  std::filesystem::path folder_;
  std::vector<output> outputs_;
};

}  // namespace penstock::cli
