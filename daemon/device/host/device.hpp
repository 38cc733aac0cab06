#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>

#include "daemon/device/device.hpp"
#include "daemon/device/host/stream.hpp"
#include "daemon/device/host/workers.hpp"

namespace penstock {

/// Zeroed memory, aligned to 256 bytes; from 2 MiB up aligned to, and where the kernel agrees made of, huge pages.
/// Every page is there when it returns. Throws device_error, also for more than the machine has: a kernel that
/// overcommits would promise it and end the process later. Give it back with free_host_memory.
[[nodiscard]] std::byte* allocate_host_memory(std::size_t bytes);
void free_host_memory(std::byte* memory) noexcept;

/// The machine's physical memory.
[[nodiscard]] std::size_t host_memory_bytes() noexcept;

/// The processors as a device. Streams are queues that worker threads drain; device memory is ordinary memory.
///
/// An operation's fault makes the device fail for good: nothing later runs, and each accepted completion still runs,
/// with that fault. Streams of a higher priority are taken first, but not without limit (host_workers). Creation may be
/// called by any thread.
class host_device final : public device {
 public:
  explicit host_device(int threads);

  [[nodiscard]] const device_facts& facts() const noexcept override { return facts_; }
  [[nodiscard]] std::unique_ptr<stream> open_stream(stream_priority priority) override;
  [[nodiscard]] std::unique_ptr<event> open_event(bool timed) override;
  [[nodiscard]] std::unique_ptr<operation> compile(std::string_view name, const operation_request& request) override;
  [[nodiscard]] fault health() noexcept override { return workers_.health().get(); }

 private:
  struct lane {
    host_queue queue;
    std::atomic<bool> taken{true};

    lane(host_workers& workers, stream_priority priority) : queue(workers, priority) {}
  };

  [[nodiscard]] std::byte* take_pinned(std::size_t bytes) override;
  void free_pinned(std::byte* memory) noexcept override;
  [[nodiscard]] std::byte* take_device(std::size_t bytes) override;
  void free_device(std::byte* memory) noexcept override;

  device_facts facts_;
  std::mutex mutex_;  // of the two lists that follow
  // Neither shrinks: an event may name a queue whose stream is gone, and a queue may hold the stamp of an event that
  // is gone. Queues are used again; stamps are a few bytes for each timed event that was ever opened.
  std::deque<lane> lanes_;
  std::deque<std::atomic<std::int64_t>> stamps_;
  host_workers workers_;  // last: its threads end before what they use
};

}  // namespace penstock
