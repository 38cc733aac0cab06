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
#include "client/cli/output_file.hpp"
#include "client/cli/result_text.hpp"

namespace penstock::cli {

/// One file for each output of a pipeline, OUTPUT.npy or in another format, or all of them on the standard output. Each
/// file is whole after each result. In .npy files frames of another shape than the first ones (the last, shorter frame
/// of a variable pipeline) go to OUTPUT.tail.npy: an array has one shape. As streams, variable outputs are the rows of
/// all their frames one after the other, however many each has.
class result_files {
 public:
  struct settings {
    std::filesystem::path folder;  ///< "-" = the standard output, which takes any format but npy
    result_format format = result_format::npy;
    existing_file existing = existing_file::keep;
    std::vector<std::string> outputs;  ///< their names; empty = all
    bool streams = false;
  };

  /// Makes the folder where it is missing. Throws std::runtime_error when that or a file can't be written, or when a
  /// file is there and stays; so do the others.
  result_files(settings how, const pipeline_info& pipeline);

  /// The next result's frames.
  void append(const result& next);
  /// In place of the next frames, which have no result. A stream goes on without them: nobody knows their rows.
  void append_missing(std::uint64_t frames);
  /// Makes the files for which nothing came.
  void finish();

  /// "psd.npy [66, 513] f32", one a file; empty for the standard output.
  [[nodiscard]] std::vector<std::string> summary() const;

 private:
  struct output {
    std::size_t place = 0;  ///< in a result
    tensor_info info;
    bool stream = false;
    std::unique_ptr<npy_file> array;
    std::unique_ptr<npy_file> tail;
    std::shared_ptr<output_file> file;  ///< of the formats without a shape
    std::uint64_t rows = 0;             ///< in that
  };

  [[nodiscard]] std::filesystem::path path_of(const output& of, const std::string& ending) const;
  void check_room(const output& of) const;
  /// The output's array; `frame_shape` is that of its frames where there is none yet.
  [[nodiscard]] npy_file& array_of(output& of, std::span<const std::int64_t> frame_shape);
  [[nodiscard]] output_file& file_of(output& of);
  void append_array(output& to, const tensor_view& from);
  void append_plain(output& to, const tensor_view& from);
  void append_missing_plain(output& to, std::uint64_t frames);

  settings how_;
  std::shared_ptr<output_file> standard_;  ///< set when all goes to the standard output
  std::vector<output> outputs_;
};

}  // namespace penstock::cli
