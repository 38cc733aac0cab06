#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sigmf.hpp"

namespace penstock {

/// Samples of a stream that follow each other, and what their account says.
struct sigmf_block {
  std::span<const std::byte> bytes;
  std::optional<std::int64_t> index{};  ///< in the sender's clock, at which the first of them stands
  std::int64_t time_ns = 0;             ///< of the sender's sample `time_index`, since 1970 UTC
  std::int64_t time_index = 0;
  std::uint8_t time_quality = 0;  ///< as on the wire: 0 none, 1 arrival, 2 counted by the rate, from 3 on said
  std::uint32_t epoch = 0;        ///< of the sender's clock
  std::uint64_t lost_before = 0;  ///< of the sender's samples, known to be lost directly before
  std::uint32_t filled = 0;       ///< of the sender's samples, that are filled in and not real
  bool loss_suspected = false;
  std::uint64_t lost_blocks = 0;  ///< of this stream or of others, lost directly before; their length is unknown
};

/// Records one stream as SigMF: blocks that follow on go into one capture; a gap, another epoch or another time begins
/// the next. Keys of a capture beside SigMF's own: "penstock:epoch" where it is not 0, "penstock:lost_before" where it
/// is not what global_index says. What is filled in, suspected or lost without a known place is annotated.
class sigmf_recorder {
 public:
  struct settings {
    std::filesystem::path meta_file{};
    std::string element{};                     ///< "cf32"
    std::vector<std::int64_t> sample_shape{};  ///< of one sample, without the pair of "ci16": its product is channels
    std::uint64_t step = 1;                    ///< of the sender's samples, that `indices` samples cover; 0: not even
    std::uint64_t indices = 1;                 ///< more than 1: their blocks' indices are rounded down
    double rate = 0;                           ///< of the sender's samples a second; 0: by the blocks' times
    std::string recorder{};                    ///< the program
    std::string description{};
  };

  /// Creates both files, or overwrites them. Throws sigmf_error, also for an element that SigMF does not have.
  explicit sigmf_recorder(const settings& wanted);
  ~sigmf_recorder();
  sigmf_recorder(const sigmf_recorder&) = delete;
  sigmf_recorder& operator=(const sigmf_recorder&) = delete;

  /// Whole samples. Throws sigmf_error.
  void append(const sigmf_block& block);
  /// The next block is of another session: it begins a capture.
  void interrupt() noexcept { next_.reset(); }
  void close();

  [[nodiscard]] std::uint64_t samples() const noexcept { return writer_.samples(); }
  [[nodiscard]] std::uint64_t captures() const noexcept { return captures_; }
  /// Samples of the recording a second; 0: not known, or not even.
  [[nodiscard]] double sample_rate() const noexcept {
    return step_ == 0 ? 0 : rate_ * static_cast<double>(indices_) / static_cast<double>(step_);
  }
  [[nodiscard]] const std::filesystem::path& meta_file() const noexcept { return meta_file_; }

 private:
  struct time_point {
    std::int64_t index = 0;
    std::int64_t time_ns = 0;
  };
  /// An annotation of samples that follow each other.
  struct remark {
    std::string label;
    std::uint64_t start = 0;
    std::uint64_t count = 0;
    std::uint64_t filled = 0;
  };

  /// Where a sample may stand behind its index, in parts of 1 / indices of a step.
  struct place {
    std::int64_t least = 0;
    std::int64_t most = 0;
  };
  /// What would follow on.
  struct expected {
    std::optional<std::int64_t> index{};  // in the sender's clock
    place behind{};                       // it; at most may lie behind the next index
    std::uint32_t epoch = 0;
  };

  [[nodiscard]] std::optional<place> place_of(const sigmf_block& block) const;
  [[nodiscard]] bool follows(const sigmf_block& block) const;
  [[nodiscard]] bool has_new_time(const sigmf_block& block) const;
  void begin(const sigmf_block& block);
  void learn_time(const sigmf_block& block);
  [[nodiscard]] std::optional<std::int64_t> time_of(const sigmf_block& block) const;
  void annotate(const sigmf_block& block, std::uint64_t samples);
  void add(remark next);
  void write(const remark& done);

  std::filesystem::path meta_file_;
  std::uint64_t step_;
  std::uint64_t indices_;
  double rate_;  // of the sender's samples; 0: not known
  bool rate_is_given_;
  sigmf_writer writer_;
  std::uint64_t captures_ = 0;
  bool closed_ = false;
  std::optional<expected> next_;      // none: the next block begins a capture
  std::optional<time_point> anchor_;  // the first time, and the latest, that count together
  std::optional<time_point> latest_;
  std::int64_t longest_ns_ = 0;          // between two such times, from which the rate was counted
  std::optional<sigmf_block> timeless_;  // began the capture, whose time waits for the rate
  std::vector<remark> open_;             // that may go on with the next block
};

}  // namespace penstock
