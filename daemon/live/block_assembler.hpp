#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "daemon/live/sample_block.hpp"
#include "daemon/live/sample_stream.hpp"
#include "daemon/telemetry/source_board.hpp"

namespace penstock::live {

/// Makes blocks of one stream's runs: each sample stands at its place, gaps are treated as the plan says, and every
/// sample is counted once. Pure: no clock, no thread, no I/O. It allocates only for gaps, of which it remembers the
/// last few.
///
/// A gap that is filled goes on in the same block. At a new epoch the block that is not full is ended: it is shorter
/// where the pipeline takes that, else its rest is filled in. Spliced, the samples behind the gap follow directly.
class block_assembler {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// All references outlive it. `counts` and `events` are those of the whole source.
  block_assembler(stream_number stream, const block_plan& plan, block_store& store, sample_counts& counts,
                  source_events& events)
      : stream_(stream), plan_(plan), store_(store), counts_(counts), events_(events) {}
  ~block_assembler() { drop_open(); }
  block_assembler(const block_assembler&) = delete;
  block_assembler& operator=(const block_assembler&) = delete;

  /// As those of sample_receiver. `now`: when the run came.
  void samples(const sample_run& run, time_point now);
  [[nodiscard]] std::span<std::byte> room();
  void loss(loss_kind kind, std::uint64_t samples) noexcept;
  void epoch() noexcept { epoch_pending_ = true; }
  void suspect() noexcept;
  /// Ends the block that is not full.
  void flush();

  /// Gives up the block that is not full: its samples count as overrun.
  void drop_open() noexcept;

  /// Index of the sample that is expected next.
  [[nodiscard]] std::int64_t position() const noexcept { return position_; }

 private:
  // Samples that never came: their places, and how many of them count as lost where.
  struct gap {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::uint64_t network = 0;
    std::uint64_t kernel = 0;
  };
  // How far behind its rate the stream is, by the clock.
  struct rate_watch {
    bool runs = false;
    time_point began{};
    time_point window_end{};
    std::uint64_t samples = 0;
    double least = 0;                // samples behind, in this window
    std::optional<double> before{};  // in the last one
  };

  [[nodiscard]] bool resume(const sample_run& run, std::size_t& skipped, std::int64_t& start);
  void begin_epoch(std::int64_t index);
  void drop_empty();
  void count_gap(std::int64_t start, bool placed);
  void count_late(std::int64_t begin, std::int64_t end);
  void close_hole(std::int64_t start);
  void append(const std::byte* bytes, std::size_t samples);
  void fill(std::uint64_t samples);
  [[nodiscard]] bool open_block();
  void end_block();
  void note_time(const sample_run& run, std::int64_t start, std::size_t skipped) noexcept;
  void stamp(block_account& account) const noexcept;
  void watch_rate(std::size_t samples, time_point now) noexcept;

  const stream_number stream_;
  const block_plan& plan_;
  block_store& store_;
  sample_counts& counts_;
  source_events& events_;
  bool begun_ = false;
  bool epoch_pending_ = false;
  std::int64_t position_ = 0;  // of the next sample from the source
  std::int64_t written_ = 0;   // of the next sample in the block; behind position_ while there is no memory
  std::uint32_t epoch_ = 0;
  bool index_known_ = false;        // the source says it, and it is not only counted here
  std::uint64_t lost_network_ = 0;  // said, and not yet counted
  std::uint64_t lost_kernel_ = 0;
  std::deque<gap> gaps_;
  sample_block block_;             // the one that is not full; without bytes there is none
  std::uint64_t lost_before_ = 0;  // of the next block
  std::uint8_t flags_ = 0;         // of the next block
  std::int64_t anchor_index_ = 0;  // of a sample whose time is known
  std::int64_t anchor_ns_ = 0;
  time_quality anchor_quality_ = time_quality::none;
  rate_watch rate_;
};

}  // namespace penstock::live
