#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/fault.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// Pieces of memory to copy, as CUDA takes them: a list of targets, one of sources, one of sizes.
struct copy_list {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> bytes;
  bool within_device = false;  ///< some pieces go from device memory to device memory

  void reserve(std::size_t pieces) {
    to.reserve(pieces);
    from.reserve(pieces);
    bytes.reserve(pieces);
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return bytes.capacity(); }
  void clear() noexcept {
    to.clear();
    from.clear();
    bytes.clear();
    within_device = false;
  }
  /// A piece of no bytes is left out.
  void add(void* target, const void* source, std::size_t count) {
    if (count != 0) {
      to.push_back(target);
      from.push_back(source);
      bytes.push_back(count);
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return bytes.size(); }
};

/// A device can't create what was asked for.
class device_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A point in a stream's work. Thread: the shard that opened it, which may call `query` at any time.
class event {
 public:
  event() = default;
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  virtual ~event() = default;

  /// `refused`: the query failed, but not the device; ask again.
  enum class state { pending, reached, failed, refused };
  /// Never blocks. An event that was never recorded is `reached`. `failed` and `refused` set `why` to the device's
  /// error.
  [[nodiscard]] virtual state query(fault& why) noexcept = 0;
  /// Microseconds from `earlier` to this event; negative unless both are timed and reached.
  [[nodiscard]] virtual double elapsed_us(const event& earlier) const noexcept = 0;
};

/// A callback that runs exactly once, on a thread of the device, or inside the call that enqueued it
/// (stream::run_inline). It must not call CUDA, lock, log or wait. `status` is the device's failure, or that of the
/// work since the last completion of a blocking stream.
using completion_function = void (*)(void* context, fault status) noexcept;

/// An in-order queue of device work. Thread: the shard that opened it. Calls enqueue work and never block; after
/// `run_inline` they may do the work themselves.
///
/// A call returns a fault if the device has failed (device::health), and then every later call does too; or if this
/// call was refused. A refused call enqueues nothing, as a rule, and the next one may succeed.
class stream {
 public:
  stream() = default;
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  /// Waits for what was enqueued (shutdown only).
  virtual ~stream() = default;

  virtual fault copy_in(void* device, const void* pinned, std::size_t bytes) noexcept = 0;
  virtual fault copy_out(void* pinned, const void* device, std::size_t bytes) noexcept = 0;
  /// The same for many pieces, in any order. After a fault some pieces may be enqueued.
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
  /// The operation and the arrays that `arguments` points at must live until the work is done. A stream may hold
  /// launches back and submit several together, at the latest in its next call that is not a launch. So a later call
  /// may return the fault of an earlier launch. A destroyed stream drops launches that it has not submitted.
  virtual fault launch(operation& work, const operation_arguments& arguments) noexcept = 0;
  /// Submits everything enqueued so far.
  virtual fault flush() noexcept { return {}; }
  virtual fault record(event& point) noexcept = 0;
  /// Work enqueued after this starts only when `point`, as last recorded, is reached.
  virtual fault wait(const event& point) noexcept = 0;
  /// `function(context, status)` runs when everything before it is done, or when the device fails: exactly once if this
  /// returns no fault, else never.
  virtual fault on_complete(completion_function function, void* context) noexcept = 0;
  /// A hint. True: work enqueued from now on takes less than device_facts::inline_limit, so a call may do it at once,
  /// completion included, if no other work is ahead of it.
  virtual void run_inline(bool /*brief*/) noexcept {}
  /// Blocks until everything enqueued is done. Start-up, shutdown and tests only; never on the hot path.
  virtual fault synchronize() noexcept = 0;
};

/// Returns memory to its device. The memory is aligned to 256 bytes and zeroed.
struct memory_deleter {
  class device* owner = nullptr;
  bool pinned = false;
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const noexcept;
};
using device_memory = std::unique_ptr<std::byte, memory_deleter>;

/// Device memory that another process of this machine can map as well, through a descriptor. It is zeroed, and must not
/// outlive its device.
class exported_memory {
 public:
  explicit exported_memory(std::size_t size) noexcept : bytes_(size) {}
  exported_memory(const exported_memory&) = delete;
  exported_memory& operator=(const exported_memory&) = delete;
  /// Gives up this process's part. The memory itself stays as long as another process has it mapped.
  virtual ~exported_memory() = default;

  /// An address of the device, in this process.
  [[nodiscard]] virtual std::byte* data() const noexcept = 0;
  /// To be sent to the other process; -1 after close_descriptor.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
  virtual void close_descriptor() noexcept = 0;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
};

/// Returns it to its device.
struct exported_deleter {
  class device* owner = nullptr;
  void operator()(exported_memory* memory) const noexcept;
};
using exported_device_memory = std::unique_ptr<exported_memory, exported_deleter>;

/// Bytes that are allocated now.
struct memory_use {
  std::size_t pinned = 0;  ///< pinned host memory
  std::size_t device = 0;  ///< device memory; on the host backend host memory too
};

enum class stream_priority { low, normal, high };

/// Streams that are alike: a batch runs on any of them.
struct stream_class {
  stream_priority priority = stream_priority::normal;
  bool blocks = false;  ///< device::open_blocking_stream

  // NOLINTNEXTLINE(google-explicit-constructor): most classes are a priority
  constexpr stream_class(stream_priority given = stream_priority::normal, bool blocking = false) noexcept
      : priority(given), blocks(blocking) {}
  auto operator<=>(const stream_class&) const = default;
};

struct device_facts {
  std::string backend;  ///< "cuda" or "host"
  std::string name;     ///< "NVIDIA H200", or the processor's name
  std::string detail;   ///< driver and runtime versions, or the number of worker threads
  std::size_t memory_bytes = 0;
  std::string pci_bus_id{};  ///< "0000:1b:00.0"; "" for the host
  /// Number of batches that the device runs at once; more wait in its queue. 0: not known.
  std::size_t at_once = 0;
  /// Minimum payload size for zero-copy, in bytes: operations read the receive buffer, and may overwrite it. SIZE_MAX:
  /// never.
  std::size_t in_place_bytes = SIZE_MAX;
  /// The same for plans whose operations pass over their inputs and outputs once (plan::single_pass).
  std::size_t single_pass_in_place_bytes = SIZE_MAX;
  /// Maximum size of a batch's input, and of its outputs, for which operations work in pinned memory instead of on
  /// copies in device memory. 0: everything is copied.
  std::size_t direct_bytes = 0;
  /// The same for plans that are single_pass.
  std::size_t single_pass_bytes = 0;
  /// A poll sees a recorded event before the completion behind it runs: on a GPU tens of microseconds before.
  bool events_come_first = false;
  /// Batches up to this long run faster on the thread that enqueues them (stream::run_inline). 0: none.
  std::chrono::microseconds inline_limit{0};
  std::string architecture{};  ///< "sm_90"; "" for the host
  /// The device's UUID, 32 hexadecimal digits, where its memory can be exported; "" where it can't.
  std::string exporter{};
};

/// Everything Penstock asks of a device. Its memory, streams, events and operations must not outlive it.
///
/// Creation (memory, streams, events, operations) throws device_error; it happens at start-up and for a reload only.
class device {
 public:
  device() = default;
  device(const device&) = delete;
  device& operator=(const device&) = delete;
  virtual ~device() = default;

  [[nodiscard]] virtual const device_facts& facts() const noexcept = 0;
  /// Host memory from and to which copies run at full speed.
  [[nodiscard]] device_memory allocate_pinned(std::size_t bytes);
  [[nodiscard]] device_memory allocate(std::size_t bytes);
  /// Rounded up to whole pages of the device. Any thread, also while the device works. Throws device_error, always
  /// where facts().exporter is "".
  [[nodiscard]] exported_device_memory allocate_exported(std::size_t bytes);
  /// Any thread, at any time.
  [[nodiscard]] memory_use in_use() const noexcept {
    return {pinned_bytes_.load(std::memory_order_relaxed), device_bytes_.load(std::memory_order_relaxed)};
  }
  [[nodiscard]] virtual std::unique_ptr<stream> open_stream(stream_priority priority) = 0;
  /// A stream for operations that block and work on host memory: its thread runs them one after the other, and no other
  /// stream waits for it. A fault of its work is told by the next completion, or by synchronize, and leaves the device
  /// as it is. Throws device_error where the device has none.
  [[nodiscard]] virtual std::unique_ptr<stream> open_blocking_stream() {
    throw device_error("the " + facts().backend + " backend has no streams for operations that block");
  }
  [[nodiscard]] virtual std::unique_ptr<event> open_event(bool timed) = 0;
  /// Compiles an operator for this device. `name` is in the catalogue and `request` has passed its `infer`.
  [[nodiscard]] virtual std::unique_ptr<operation> compile(std::string_view name, const operation_request& request) = 0;
  /// Until `unpin`, copies from and to this memory run at full speed, as with allocate_pinned; it must live until then.
  /// Any thread, also while the device works. Throws device_error. No effect on the host.
  virtual void pin(std::byte* /*memory*/, std::size_t /*bytes*/) {}
  virtual void unpin(std::byte* /*memory*/) noexcept {}
  /// The device's sticky error, if any. A refused call does not set it. Never blocks.
  [[nodiscard]] virtual fault health() noexcept = 0;

 private:
  friend struct memory_deleter;
  friend struct exported_deleter;
  [[nodiscard]] virtual std::byte* take_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(std::byte* memory) noexcept = 0;
  [[nodiscard]] virtual std::byte* take_device(std::size_t bytes) = 0;
  virtual void free_device(std::byte* memory) noexcept = 0;
  [[nodiscard]] virtual std::unique_ptr<exported_memory> take_exported(std::size_t /*bytes*/) {
    throw device_error("this device has no memory that another process could map");
  }

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

inline exported_device_memory device::allocate_exported(std::size_t bytes) {
  std::unique_ptr<exported_memory> memory = take_exported(bytes);
  device_bytes_.fetch_add(memory->bytes(), std::memory_order_relaxed);
  return {memory.release(), {this}};
}

inline void exported_deleter::operator()(exported_memory* memory) const noexcept {
  const std::size_t bytes = memory->bytes();
  delete memory;
  owner->device_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
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

/// The first fault that a device met; it never goes away. Written and read by every thread of the device.
class sticky_fault {
 public:
  [[nodiscard]] fault get() const noexcept { return {name_.load(std::memory_order_seq_cst)}; }

  /// Keeps `met` if there was none before. Returns whether it was the first.
  bool set(fault met) noexcept {
    const char* none = nullptr;
    return name_.compare_exchange_strong(none, met.name, std::memory_order_seq_cst);
  }

 private:
  std::atomic<const char*> name_{nullptr};
};

/// Makes an operation. Turns any std::runtime_error, except parameter_error, into device_error.
[[nodiscard]] inline std::unique_ptr<operation> make_for_device(make_operation make, const operation_request& request) {
  try {
    return make(request);
  } catch (const parameter_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw device_error(error.what());
  }
}

}  // namespace penstock
