#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/device/host_command.hpp"

namespace penstock {

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
  void run(runner who) noexcept;

 private:
  friend class host_workers;
  static constexpr std::uint64_t nobody = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] bool must_park(const host_wait& on) noexcept;
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

}  // namespace penstock
