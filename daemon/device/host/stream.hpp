#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

#include "daemon/device/device.hpp"
#include "kernels/operation.hpp"

namespace penstock {

class host_queue;

struct host_copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

struct host_launch {
  operation* work = nullptr;
  operation_arguments arguments;
};

/// Later commands wait until `queue` has done all commands before `position`.
struct host_wait {
  host_queue* queue = nullptr;
  std::uint64_t position = 0;
};

/// Stores the time, in nanoseconds of the steady clock. Written by a worker, read by the event's thread.
struct host_stamp {
  std::atomic<std::int64_t>* at = nullptr;
};

struct host_callback {
  completion_function function = nullptr;
  void* context = nullptr;
};

/// One piece of work of a host stream.
using host_command = std::variant<host_copy, host_launch, host_wait, host_stamp, host_callback>;

/// A position in a host queue. Recording it again moves it; who waits already goes on waiting for the old position.
///
/// A timed one is to be recorded again only once it is reached: until then its time may be of the record before.
class host_event final : public event {
 public:
  /// `stamp` is where the workers store the time of a timed event, nullptr for one that is not; the device owns it.
  host_event(const sticky_fault& health, std::atomic<std::int64_t>* stamp) noexcept;

  /// Once the device has failed every event is `failed`, as on CUDA.
  state query(fault& why) noexcept override;
  [[nodiscard]] double elapsed_us(const event& earlier) const noexcept override;

  void move_to(const host_wait& point) noexcept { point_ = point; }
  /// Without a queue when it was never recorded.
  [[nodiscard]] const host_wait& point() const noexcept { return point_; }
  [[nodiscard]] std::atomic<std::int64_t>* stamp() const noexcept { return stamp_; }

 private:
  [[nodiscard]] bool reached() const noexcept;

  const sticky_fault& health_;
  std::atomic<std::int64_t>* stamp_;
  host_wait point_;
};

class host_workers;

/// The commands of one host stream, in order. It lives as long as its device, because events name positions in it.
///
/// A position counts the commands put before it since the device was opened; an event is a queue and a position.
/// Two parties use it: the stream's thread puts and publishes; one worker at a time, the runner, takes and runs. Who
/// raises `pending_` from zero hands the queue to the workers, or is the runner itself while commands are said to be
/// brief; the runner that lowers it to zero gives it back.
///
/// Commands become visible to the workers when they are published, and not before: at each record, completion,
/// synchronize, and every `unpublished_limit` commands. So a batch wakes a worker once, not once a command.
class host_queue {
 public:
  /// Commands that can stand in the queue, the running one included. A shard has at most a few batches in a stream
  /// and a batch takes about 8 commands and one a stage, so a queue is never full.
  static constexpr std::size_t capacity = 2048;
  static constexpr std::uint64_t unpublished_limit = 256;

  host_queue(host_workers& workers, stream_priority priority);

  /// Appends a command. Refuses with the device's fault, or with "HOST_STREAM_FULL" at the capacity. Stream's thread.
  fault put(const host_command& command) noexcept;
  /// Lets the workers have what was put, or runs it if it is brief and nothing stands before it. Returns the position
  /// behind it. Stream's thread.
  std::uint64_t publish() noexcept;
  /// Whether what is published from now on is brief. Stream's thread.
  void run_inline(bool brief) noexcept { inline_ = brief; }

  /// How many commands are done, or skipped because the device has failed. Any thread.
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_seq_cst); }
  /// Whether no worker has it: what is published next is the first. Any thread.
  [[nodiscard]] bool idle() const noexcept { return pending_.load(std::memory_order_acquire) == 0; }
  [[nodiscard]] stream_priority priority() const noexcept { return priority_; }

  enum class runner { worker, caller };
  /// Runs commands until there is none, until it has parked, or until another queue should have the worker. Runner.
  void run(runner thread) noexcept;

 private:
  friend class host_workers;
  static constexpr std::uint64_t nobody = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] bool must_park(const host_wait& until) noexcept;
  void execute(const host_command& command) noexcept;

  host_workers& workers_;
  const stream_priority priority_;
  std::vector<host_command> commands_;      // the slot of position p is p % capacity
  std::uint64_t put_ = 0;                   // stream's thread only
  std::uint64_t published_ = 0;             // stream's thread only
  bool inline_ = false;                     // stream's thread only
  std::atomic<std::uint64_t> pending_{};    // published and not completed; raised by the stream, lowered by the runner
  std::atomic<std::uint64_t> completed_{};  // written by the runner, read by everyone
  // The first position that somebody waits for, or one before it; written under host_workers' lock, read by the runner.
  std::atomic<std::uint64_t> watched_{nobody};

  // Of host_workers, under its lock: the list that the queue stands in, and what it is parked on.
  host_queue* next_ = nullptr;
  host_wait parked_on_;
};

/// A stream of the host device: the thread's end of a host_queue, which it has for itself until it is destroyed.
///
/// Work starts at the latest when something can tell that it did: at a record, a completion, a flush or a
/// synchronize.
class host_stream final : public stream {
 public:
  /// `taken` is true while a stream has the queue.
  host_stream(host_workers& workers, host_queue& queue, std::atomic<bool>& taken) noexcept;
  ~host_stream() override;

  fault copy_in(void* device, const void* pinned, std::size_t bytes) noexcept override;
  fault copy_out(void* pinned, const void* device, std::size_t bytes) noexcept override;
  fault launch(operation& work, const operation_arguments& arguments) noexcept override;
  fault flush() noexcept override;
  fault record(event& point) noexcept override;
  fault wait(const event& point) noexcept override;
  fault on_complete(completion_function function, void* context) noexcept override;
  void run_inline(bool brief) noexcept override { queue_.run_inline(brief); }
  /// Returns when all completions have run as well, also on a failed device. No worker has the stream then.
  fault synchronize() noexcept override;

 private:
  host_workers& workers_;
  host_queue& queue_;
  std::atomic<bool>& taken_;  // written by the threads that open and destroy streams
};

}  // namespace penstock
