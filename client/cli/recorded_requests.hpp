#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <penstock/pipeline_info.hpp>

#include "base/sigmf.hpp"
#include "client/cli/frame_stream.hpp"
#include "client/cli/input_stream.hpp"

namespace penstock::cli {

/// Reads a SigMF recording as requests of a pipeline, at the pace of its samples. Their accounts say what the recording
/// says: index, time and epoch of the samples, and what was lost before them. A pipeline with variable frames gets a
/// shorter one at the end of a capture. Frames of a fixed length are filled up with zeros, which the account counts; a
/// gap that lies within a frame is filled too.
class recorded_requests {
 public:
  struct settings {
    std::uint32_t frames_per_request = 1;
    double pace = 1;  ///< times the recording's; 0: as fast as it goes
    double rate = 0;  ///< samples a second; 0: the recording's own
  };
  struct figures {
    std::uint64_t samples = 0;  ///< sent
    std::uint64_t captures = 0;
    std::uint64_t lost = 0;    ///< declared to be
    std::uint64_t filled = 0;  ///< sent in addition
  };

  /// Throws input_error when the recording can't be read, or does not suit the pipeline. `stop` must outlive this.
  recorded_requests(std::filesystem::path meta_file, const pipeline_info& pipeline, const settings& wanted,
                    stop_event& stop);

  /// The next request, once it is due: when its last sample would have come. nullopt at the end or at a stop. Throws
  /// input_error.
  [[nodiscard]] std::optional<stream_request> next();

  [[nodiscard]] double rate() const noexcept { return rate_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] const figures& so_far() const noexcept { return figures_; }
  /// Of the first sample.
  [[nodiscard]] sample_numbers first() const noexcept;

 private:
  /// Samples that follow each other.
  struct segment {
    std::uint64_t begin = 0;  ///< in the file
    std::uint64_t end = 0;
    std::int64_t index = 0;
    std::optional<std::int64_t> time_ns{};
    std::uint32_t epoch = 0;
    std::uint64_t lost_before = 0;
  };

  void take_segments(const sigmf_meta& meta, const pipeline_info& pipeline);
  [[nodiscard]] const segment& current() const { return segments_[at_]; }
  void read_samples(std::vector<std::byte>& into, std::uint64_t count);
  void fill(stream_request& request, std::uint64_t count);
  void fill_up(stream_request& request, std::uint64_t wanted);
  [[nodiscard]] sample_account account_of_next() const;
  [[nodiscard]] bool wait_for(std::uint64_t position) const;

  std::filesystem::path meta_file_;
  settings settings_;
  stop_event& stop_;
  std::ifstream data_;
  std::size_t sample_bytes_ = 0;
  std::uint64_t frame_ = 0;  // samples
  bool variable_ = false;
  double rate_ = 0;
  std::vector<segment> segments_;
  std::size_t at_ = 0;        // the segment that is read
  std::uint64_t sample_ = 0;  // the next one, in the file
  std::uint64_t owed_ = 0;    // of lost_before of the segment, that is not declared yet
  bool begins_ = true;        // the next sample is the segment's first
  bool epoch_begins_ = false;
  std::uint64_t position_ = 0;  // samples of the stream so far, with gaps
  std::uint64_t due_ = 0;       // the same, up to the last sample of the next request
  std::optional<std::chrono::steady_clock::time_point> began_;
  figures figures_;
};

}  // namespace penstock::cli
