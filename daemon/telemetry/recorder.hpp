#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/histogram.hpp"
#include "daemon/batch/slot_ring.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/request.hpp"
#include "daemon/telemetry/device_clock.hpp"
#include "daemon/telemetry/timeline.hpp"

namespace penstock {

/// Chooses the batches that are timed: at most so many a second, evenly spread. Thread: the shard.
class sampling {
 public:
  explicit sampling(std::uint32_t per_second) noexcept { set_rate(per_second); }

  void set_rate(std::uint32_t per_second) noexcept {
    interval_ =
        per_second == 0 ? std::chrono::nanoseconds{} : std::chrono::nanoseconds{std::chrono::seconds{1}} / per_second;
  }

  /// Whether a batch may be timed now; if so, the next may be one interval later. Unused turns do not add up.
  [[nodiscard]] bool take(time_point now) noexcept {
    if (interval_.count() == 0 || now < next_) {
      return false;
    }
    next_ = now - next_ < interval_ ? next_ + interval_ : now + interval_;
    return true;
  }
  /// No batch is timed before `until`.
  void pause(time_point until) noexcept { next_ = std::max(next_, until); }

 private:
  std::chrono::nanoseconds interval_{};  // 0 = never
  time_point next_{};
};

/// How long a stream of the pool was busy, by the device's clock. Only some batches are timed: multiply the times by
/// `batches` ÷ `timed_batches`. Thread: the shard.
struct stream_timing {
  std::chrono::nanoseconds copy_in{};
  std::chrono::nanoseconds compute{};
  std::chrono::nanoseconds copy_out{};
  std::uint64_t timed_batches = 0;
  std::uint64_t batches = 0;  ///< that ran on it, wholly or in part
};

/// Where the time of one pipeline's requests goes. Thread: the shard.
struct pipeline_timing {
  // Of each request, by the host's clock.
  time_histogram queued;  ///< from being received to its batch's launch
  time_histogram device;  ///< from its batch's launch to its completion, as the shard saw it
  time_histogram total;   ///< from being received to its result

  // Of each batch that was timed, by the device's clock.
  time_histogram copy_in;
  time_histogram compute;   ///< from the first stage's begin to the last one's end
  time_histogram copy_out;  ///< its copies out added up

  /// Calls `visit(name, histogram)` for each, in this order.
  template <typename Function>
  void for_each(Function&& visit) const {
    visit(std::string_view("queued"), queued);
    visit(std::string_view("device"), device);
    visit(std::string_view("total"), total);
    visit(std::string_view("copy_in"), copy_in);
    visit(std::string_view("compute"), compute);
    visit(std::string_view("copy_out"), copy_out);
  }
};

/// Records what batches did and how long it took. The scheduler reports events; they happen at the time of the turn.
/// Never blocks or allocates. Thread: the shard.
///
/// Reading the times of a batch costs calls to the device. After that, no batch is timed for 200 times as long,
/// whatever the settings allow: timing takes at most 0.5 % of the thread.
class recorder {
 public:
  /// With no clocks, or with `batches_per_second` 0, it records the host's times alone and never uses the device. `now`
  /// is read before and after calls to the device. Throws device_error.
  recorder(device& device, clock_pool& clocks, std::span<const plan> plans, std::size_t slots,
           const timing_settings& settings, time_source now);

  /// From now on so many batches a second are timed; none if none was to be at the start.
  void set_rate(std::uint32_t batches_per_second) noexcept {
    sampling_.set_rate(device_clock_ != nullptr ? batches_per_second : 0);
  }

  /// Begins a turn of the shard: what is reported from now on happens at this time.
  void turn(time_point now) noexcept;

  // The life of a batch, in this order.

  /// The slot's first request is about to come in.
  void opened(const slot& empty) noexcept { drafts_[empty.index].opened = now_; }
  void closed(const slot& filled) noexcept { drafts_[filled.index].closed = now_; }
  /// The batch goes to the stream pool next. It gets a clock if it is timed.
  void launching(slot& filled) noexcept;
  /// The batch is done, its requests have no results yet.
  void completed(slot& done) noexcept;
  /// The request gets its result now.
  void replied(const request& done) noexcept;
  /// Slots came back to the ring and were not claimed again.
  void collected() noexcept;

  /// A pipeline of that id is served from now on, too.
  void add(std::uint32_t id) { timing_.resize(std::max<std::size_t>(timing_.size(), id + 1)); }

  /// By pipeline id.
  [[nodiscard]] const std::vector<pipeline_timing>& timing() noexcept {
    count_replies();
    return timing_;
  }
  /// By the stream pool's streams; one that was never used may be missing at the end.
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
    const slot* source;
    std::uint64_t number;
  };
  // Consecutive results of one turn, of requests of one pipeline that were received at the same time.
  struct like_replies {
    std::uint32_t pipeline = 0;
    time_point received;
    std::uint64_t count = 0;
  };

  void count_replies() noexcept;

  void take_clock(slot& done, const recent_batches::kept_batch& kept) noexcept;
  [[nodiscard]] bool read_steps(const slot& done, std::uint32_t anchor, std::span<step_time> steps) const noexcept;
  void add_steps(const plan& pipeline, std::span<const step_time> steps) noexcept;
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
