#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline_info.hpp>
#include <penstock/subscription.hpp>

#include "base/sigmf_recorder.hpp"

namespace penstock::cli {

/// Writes what a subscription brings as SigMF, one recording for each session (or client without one) and output. A
/// session that is opened again, under its name, goes on in its recording.
///
/// A sample of a recording is an element of the first dimension of a frame where that is time, else a frame; its other
/// numbers are its channels, row by row.
class recordings {
 public:
  struct settings {
    /// A folder for files such as SESSION.OUTPUT.sigmf-meta, which is made if it is missing, and where no file is
    /// replaced; or, with that ending, the one recording.
    std::filesystem::path to;
    std::vector<std::string> outputs{};  ///< their names; empty: all
    bool requests = false;               ///< what was sent, instead of outputs
    double rate = 0;                     ///< of the pipeline's input, samples a second; 0: as the accounts have it
    std::uint64_t max_bytes = UINT64_MAX;
    bool replace = false;  ///< the one recording may be there
    std::string recorder{};
  };

  /// Throws std::runtime_error when SigMF does not have the samples, or files can't be written; so do the others.
  recordings(settings wanted, const pipeline_info& pipeline);

  /// `subscription` tells apart those whose publishers have the same numbers. False when no more is taken: max_bytes.
  [[nodiscard]] bool take(const published& item, std::size_t subscription);
  void close();

  [[nodiscard]] std::uint64_t items() const noexcept { return items_; }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }
  /// Of other sessions than that of the one recording.
  [[nodiscard]] std::uint64_t left_out() const noexcept { return left_out_; }
  /// A line for each recording.
  [[nodiscard]] std::vector<std::string> summary() const;
  /// A line for each that has no sample rate, and why.
  [[nodiscard]] std::vector<std::string> without_rate() const;

 private:
  /// How an output lies in its recordings.
  struct track {
    tensor_info info;
    std::vector<std::int64_t> sample_shape;
    std::uint64_t step = 1;
    std::uint64_t indices = 1;
    bool frames_are_samples = false;
  };
  using publisher = std::pair<std::size_t, std::uint32_t>;  ///< subscription and number
  struct recording {
    publisher from;
    bool is_even = true;  ///< its samples have a rate
    std::uint64_t lost_seen = 0;
    std::unique_ptr<sigmf_recorder> file;
  };
  /// Of a session's name and client, and an output.
  using place = std::pair<std::string, std::string>;

  [[nodiscard]] static track track_of(const tensor_info& info, const pipeline_info& pipeline);
  [[nodiscard]] recording* recording_of(const published& item, const track& output, publisher from);
  [[nodiscard]] recording& begin(const published& item, const track& output, publisher from, const std::string& name);
  void append(const published& item, const track& output, const tensor_view& tensor, publisher from);
  void forget(std::size_t subscription);

  settings settings_;
  std::vector<track> tracks_;
  std::vector<std::unique_ptr<recording>> all_;
  std::map<place, recording*> by_name_;                                   // the latest of a name
  std::map<std::pair<publisher, std::string>, recording*> by_publisher_;  // and output
  std::map<std::size_t, std::uint64_t> lost_by_;                          // subscription
  std::uint64_t items_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t left_out_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock::cli
