#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/pipeline/plan.hpp"
#include "daemon/request/request.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/timeline/clock_pool.hpp"
#include "daemon/timeline/device_clock.hpp"
#include "daemon/timeline/pipeline_timing.hpp"
#include "daemon/timeline/recent_batches.hpp"
#include "daemon/timeline/sampling.hpp"
#include "daemon/timeline/stream_timing.hpp"

namespace penstock {

/// Keeps what batches did and how long it took. The dispatcher tells it what happens, at the time of the turn; nothing
/// that it does blocks or allocates. Thread: the shard.
///
/// Reading the times of a batch costs calls to the device: after each, no batch is timed until 200 times that cost has
/// passed, whatever the settings allow. So it takes at most 0.5 % of the thread.
class recorder {
 public:
  /// What it keeps by the host's clock alone needs no clocks: with none, or with `batches_per_second` 0, it never uses
  /// the device. `now` is read around what it asks of the device. Throws device_error.
  recorder(device& on, clock_pool& clocks, std::span<const plan> plans, std::size_t slots, const timing_settings& how,
           time_source now);

  /// From now on so many batches a second are timed; none where none was to be at the start.
  void set_rate(std::uint32_t batches_per_second) noexcept {
    sampling_.set_rate(device_clock_ != nullptr ? batches_per_second : 0);
  }

  /// Begins a turn of the shard: what it is told from now on happens at this time.
  void turn(time_point now) noexcept;

  // The life of a batch, in this order.

  /// The slot's first request is about to come in.
  void opened(const slot& empty) noexcept { drafts_[empty.index].opened = now_; }
  void closed(const slot& filled) noexcept { drafts_[filled.index].closed = now_; }
  /// The batch goes to the wheel next. It gets a clock if it is to be timed.
  void launching(slot& filled) noexcept;
  /// The batch is done, its requests have no results yet.
  void completed(slot& done) noexcept;
  /// The request gets its result now.
  void replied(const request& done) noexcept;
  /// Slots came back to the ring and were not claimed again.
  void collected() noexcept;

  /// A pipeline of that number is served from now on, too.
  void add(std::uint32_t id) { timing_.resize(std::max<std::size_t>(timing_.size(), id + 1)); }

  /// By pipeline id.
  [[nodiscard]] const std::vector<pipeline_timing>& timing() noexcept {
    count_replies();
    return timing_;
  }
  /// By the wheel's streams; one that was never used may be missing at the end.
  [[nodiscard]] const std::vector<stream_timing>& streams() const noexcept { return streams_; }
  [[nodiscard]] recent_batches& batches() noexcept { return recent_; }

 private:
  // What is known of a slot's batch before it is done, and how to find it afterwards.
  struct draft {
    time_point opened;
    time_point closed;
    std::uint32_t anchor = 0;  // while the slot has a clock
  };
  struct sending {
    const slot* from;
    std::uint64_t number;
  };
  // Requests of one pipeline that came at one time and got their results in one turn, one behind the other.
  struct like_replies {
    std::uint32_t pipeline = 0;
    time_point received;
    std::uint64_t count = 0;
  };

  void count_replies() noexcept;

  void take_clock(slot& done, const recent_batches::kept_batch& kept) noexcept;
  [[nodiscard]] bool read_steps(const slot& done, std::uint32_t anchor, std::span<step_time> into) const noexcept;
  void add_steps(const plan& of, std::span<const step_time> steps) noexcept;
  void add_to_streams(const slot& done, std::span<const step_time> steps) noexcept;

  clock_pool& clocks_;
  time_source clock_;
  std::size_t lanes_;  // of a batch, whose streams are kept
  sampling sampling_;
  std::unique_ptr<device_clock> device_clock_;  // none when nothing is timed
  recent_batches recent_;
  std::vector<pipeline_timing> timing_;
  std::vector<stream_timing> streams_;
  std::vector<draft> drafts_;     // by slot
  std::vector<sending> sending_;  // slots that are done and not free yet
  like_replies replies_;          // not in timing_ yet
  time_point now_;
};

}  // namespace penstock
