#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "daemon/device/copy_list.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// A device could not give what was asked of it at start-up.
class device_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A point in a stream's work. Thread: the shard that opened it; `ready` may be asked from there at any time.
class event {
 public:
  event() = default;
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  virtual ~event() = default;

  /// `refused`: the device did not say, and has not failed. It is to be asked again.
  enum class state { pending, reached, failed, refused };
  /// Never blocks. An event that was never recorded is `reached`. When `failed` or `refused`, `why` holds the device's
  /// error.
  [[nodiscard]] virtual state query(fault& why) noexcept = 0;
  /// Microseconds from `earlier` to this; both timed, both reached. Negative when it can't be told.
  [[nodiscard]] virtual double elapsed_us(const event& earlier) const noexcept = 0;
};

/// Runs exactly once, on a thread of the device's, or inside the call that enqueued it (stream::run_inline): store,
/// push, wake, return. No CUDA call, lock, log or wait inside.
using completion_function = void (*)(void* context, fault status) noexcept;

/// An in-order queue of device work. Thread: the shard that opened it. Every call only enqueues; none blocks, but for
/// the work itself where `run_inline` asked for it.
///
/// A fault that a call returns is one of two kinds. A device that has failed (device::health) keeps failing. Else the
/// call was refused: it enqueued nothing, as a rule, and the next one may succeed.
class stream {
 public:
  stream() = default;
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  /// Waits for what was enqueued (shutdown only).
  virtual ~stream() = default;

  virtual fault copy_in(void* device, const void* pinned, std::size_t bytes) noexcept = 0;
  virtual fault copy_out(void* pinned, const void* device, std::size_t bytes) noexcept = 0;
  /// The same for many pieces, in any order among themselves. After a fault some of them may be enqueued.
  virtual fault copy_pieces_in(const copy_list& pieces) noexcept {
    fault failed;
    for (std::size_t at = 0; at < pieces.size() && !failed; ++at) {
      failed = copy_in(pieces.to[at], pieces.from[at], pieces.bytes[at]);
    }
    return failed;
  }
  virtual fault copy_pieces_out(const copy_list& pieces) noexcept {
    fault failed;
    for (std::size_t at = 0; at < pieces.size() && !failed; ++at) {
      failed = copy_out(pieces.to[at], pieces.from[at], pieces.bytes[at]);
    }
    return failed;
  }
  /// The operation and the arrays that `arguments` points at must live until the work is done. Operations that are
  /// launched one behind the other may be handed to the device together, at the latest by the stream's next call that
  /// is no launch; a fault of theirs is then returned by that call or a launch before it. What no call has handed over
  /// when the stream is destroyed is dropped.
  virtual fault launch(operation& what, const operation_arguments& arguments) noexcept = 0;
  /// Hands over what was launched or copied, where no other call does.
  virtual fault flush() noexcept { return {}; }
  virtual fault record(event& point) noexcept = 0;
  /// Work enqueued after this starts only when `point`, as last recorded, is reached.
  virtual fault wait(const event& point) noexcept = 0;
  /// `function(context, status)` runs once everything before it is done, or as soon as the device fails.
  /// If this returns no fault, it runs exactly once; otherwise it never runs.
  virtual fault on_complete(completion_function function, void* context) noexcept = 0;
  /// Whether what is enqueued from now on is so brief (device_facts::inline_limit) that the calls may do it themselves,
  /// completion and all, where nothing is in front of it. A device with threads of its own need not.
  virtual void run_inline(bool /*brief*/) noexcept {}
  /// Blocks until everything enqueued is done. Start-up, shutdown and tests only; never on the hot path.
  virtual fault synchronize() noexcept = 0;
};

/// Memory that its deleter gives back to the device it came from. Aligned to 256 bytes, zeroed.
struct memory_deleter {
  class device* owner = nullptr;
  bool pinned = false;
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const noexcept;
};
using device_memory = std::unique_ptr<std::byte, memory_deleter>;

/// What has been allocated and not given back, in bytes.
struct memory_use {
  std::size_t pinned = 0;  ///< of the host's
  std::size_t device = 0;  ///< of the device's own; of the host's, where that is the device
};

enum class stream_priority { low, normal, high };

struct device_facts {
  std::string backend;  ///< "cuda" or "host"
  std::string name;     ///< "NVIDIA H200", or the processor's name
  std::string detail;   ///< driver and runtime versions, or the number of worker threads
  std::size_t memory_bytes = 0;
  std::string pci_bus_id{};  ///< "0000:1b:00.0"; "" for the host
  /// How many batches make progress at once, where that is known: more would only stand in line. 0 = not known.
  std::size_t at_once = 0;
  /// A payload of at least so many bytes need not be copied at all: operations read it, and write a result over it,
  /// where it came in, whatever memory that is. SIZE_MAX: they can't.
  std::size_t in_place_bytes = SIZE_MAX;
  /// The same where all operations go over their inputs and outputs once (operation::single_pass).
  std::size_t single_pass_in_place_bytes = SIZE_MAX;
  /// Operations may read batches of up to so many bytes where they lie in pinned memory, and write results of up to so
  /// many there, instead of having them copied. 0: everything is copied.
  std::size_t direct_bytes = 0;
  /// The same where the operations go over their inputs and outputs once (plan::single_pass).
  std::size_t single_pass_bytes = 0;
  /// Whether a recorded event is seen sooner than the function behind it runs: on a GPU by tens of microseconds.
  bool events_come_first = false;
  /// Batches that take no longer are better done by the thread that enqueues them than handed over
  /// (stream::run_inline). 0: none is.
  std::chrono::microseconds inline_limit{0};
};

/// Everything Penstock asks of a device. What it hands out must not outlive it.
///
/// Creation (memory, streams, events, operations) throws device_error; it happens at start-up and for a reload only.
class device {
 public:
  device() = default;
  device(const device&) = delete;
  device& operator=(const device&) = delete;
  virtual ~device() = default;

  [[nodiscard]] virtual const device_facts& facts() const noexcept = 0;
  /// Host memory that copies in and out run from at full speed.
  [[nodiscard]] device_memory allocate_pinned(std::size_t bytes);
  [[nodiscard]] device_memory allocate(std::size_t bytes);
  /// Any thread, at any time.
  [[nodiscard]] memory_use in_use() const noexcept {
    return {pinned_bytes_.load(std::memory_order_relaxed), device_bytes_.load(std::memory_order_relaxed)};
  }
  [[nodiscard]] virtual std::unique_ptr<stream> open_stream(stream_priority priority) = 0;
  [[nodiscard]] virtual std::unique_ptr<event> open_event(bool timed) = 0;
  /// Compiles an operator for this device. `name` is in the catalogue and `request` has passed its `infer`.
  [[nodiscard]] virtual std::unique_ptr<operation> compile(std::string_view name, const operation_request& request) = 0;
  /// Lets copies in and out run at full speed from and to memory that it did not allocate, until `unpin`, before which
  /// the memory must not go. Any thread, also while the device works. Throws device_error. The host needs nothing done.
  virtual void pin(std::byte* /*memory*/, std::size_t /*bytes*/) {}
  virtual void unpin(std::byte* /*memory*/) noexcept {}
  /// The device's sticky error, if it has one; a call that was refused is none. Never blocks.
  [[nodiscard]] virtual fault health() noexcept = 0;

 private:
  friend struct memory_deleter;
  [[nodiscard]] virtual std::byte* take_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(std::byte* memory) noexcept = 0;
  [[nodiscard]] virtual std::byte* take_device(std::size_t bytes) = 0;
  virtual void free_device(std::byte* memory) noexcept = 0;

  std::atomic<std::size_t> pinned_bytes_{0};
  std::atomic<std::size_t> device_bytes_{0};
};

inline device_memory device::allocate_pinned(std::size_t bytes) {
  std::byte* const memory = take_pinned(bytes);
  pinned_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return {memory, {this, true, bytes}};
}

inline device_memory device::allocate(std::size_t bytes) {
  std::byte* const memory = take_device(bytes);
  device_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return {memory, {this, false, bytes}};
}

inline void memory_deleter::operator()(std::byte* memory) const noexcept {
  if (pinned) {
    owner->free_pinned(memory);
    owner->pinned_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  } else {
    owner->free_device(memory);
    owner->device_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
}

}  // namespace penstock
