#pragma once

#include <atomic>
#include <cstddef>

#include "daemon/device/device.hpp"
#include "daemon/device/host_queue.hpp"
#include "daemon/device/host_workers.hpp"

namespace penstock {

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
  fault launch(operation& what, const operation_arguments& arguments) noexcept override;
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
