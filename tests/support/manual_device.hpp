#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "daemon/device/device.hpp"

namespace penstock::testing {

class manual_stream;

/// A device whose work is done when the test says so, and whose faults come where the test puts them.
///
/// Copies and operations really happen, in order, at the moment when the test finishes them: a slot that is used again
/// too early shows as a wrong payload. A mark is what a batch ends with: a completion or a recorded event; a batch of
/// several lanes, or of a pipeline that keeps state, has further marks before it. Timed events are no marks: they are
/// reached in passing, at the time that the test has set. A stream stops at a wait until the
/// event, as it was last recorded before the wait, is reached.
/// Threads: streams are used by one thread, the test's side below by one other (or the same).
class manual_device : public device {
 public:
  enum class call { copy_in, copy_out, launch, record, on_complete, wait };

  manual_device() = default;
  /// Everything that was allocated must have been given back.
  ~manual_device() override;

  const device_facts& facts() const noexcept override { return facts_; }
  std::unique_ptr<stream> open_stream(stream_priority priority) override;
  std::unique_ptr<stream> open_blocking_stream() override { return open_stream(stream_priority::normal); }
  std::unique_ptr<event> open_event(bool timed) override;
  /// There are no operators here: plans are made by hand.
  std::unique_ptr<operation> compile(std::string_view name, const operation_request& request) override;
  fault health() noexcept override { return {lost_.load()}; }

  /// What device_facts::direct_bytes says. Before a stream pool is made.
  void work_in_place_up_to(std::size_t bytes) noexcept { facts_.direct_bytes = bytes; }
  /// What device_facts::single_pass_bytes says. Before a stream pool is made.
  void pass_in_place_up_to(std::size_t bytes) noexcept { facts_.single_pass_bytes = bytes; }
  /// What device_facts::in_place_bytes says. Before a stream pool is made.
  void read_payloads_from(std::size_t bytes) noexcept { facts_.in_place_bytes = bytes; }
  /// What device_facts::single_pass_in_place_bytes says. Before a stream pool is made.
  void read_single_pass_payloads_from(std::size_t bytes) noexcept { facts_.single_pass_in_place_bytes = bytes; }
  /// What device_facts::inline_limit says. Before a stream pool is made. A stream that runs inline does its work as
  /// soon as it is enqueued, as after `let_run`.
  void run_inline_up_to(std::chrono::microseconds limit) noexcept { facts_.inline_limit = limit; }
  /// What device_facts::events_come_first says. Before a stream pool is made.
  void let_events_come_first(bool they_do) noexcept { facts_.events_come_first = they_do; }
  /// From now on work is done as soon as it is enqueued, on the thread that enqueues it.
  void let_run();
  /// From now on work waits for `finish`, as it does from the start.
  void hold() { held_ = true; }

  [[nodiscard]] std::size_t streams() const noexcept { return streams_.size(); }
  /// Marks that are enqueued and not reached, of one stream and of all.
  [[nodiscard]] std::size_t pending(std::size_t stream) const;
  [[nodiscard]] std::size_t pending() const;
  /// Blocks until at least that many marks wait; false when they don't come.
  [[nodiscard]] bool wait_for_pending(std::size_t count, std::chrono::milliseconds patience = std::chrono::seconds{20});
  /// Does a stream's work up to and with its next mark, or up to a wait that it stops at: false then, and when there is
  /// no mark. With a fault the work is lost and the mark tells it.
  bool finish(std::size_t stream, fault failure = {});
  void finish_all();

  /// The next call of that kind is refused with this fault; nothing of it is enqueued.
  void refuse(call what, const char* fault_name) { refused_[static_cast<std::size_t>(what)] = fault_name; }
  /// The device fails for good: every mark that waits tells the fault, every further call is refused with it.
  void lose(const char* fault_name);
  /// What timed events that are reached from now on say.
  void set_time(std::chrono::nanoseconds time) { time_ns_ = time.count(); }
  /// Marks that were ever enqueued.
  [[nodiscard]] std::size_t marks() const noexcept { return marks_; }

 private:
  friend class manual_stream;

  std::byte* take_pinned(std::size_t bytes) override { return take_device(bytes); }
  void free_pinned(std::byte* memory) noexcept override;
  std::byte* take_device(std::size_t bytes) override;
  void free_device(std::byte* memory) noexcept override;
  [[nodiscard]] fault refusal(call what) noexcept;

  device_facts facts_{.backend = "manual", .name = "manual device", .detail = "the test says when"};
  std::mutex running_;        // whoever does work: one at a time, so that a stream's work stays in its order
  mutable std::mutex mutex_;  // guards every stream's queue
  std::condition_variable enqueued_;
  std::vector<manual_stream*> streams_;
  std::atomic<bool> held_{true};
  std::atomic<const char*> lost_{nullptr};
  std::atomic<const char*> refused_[6] = {};
  std::atomic<std::size_t> marks_{0};
  std::atomic<std::int64_t> time_ns_{0};
  std::atomic<std::size_t> allocations_{0};
};

}  // namespace penstock::testing
