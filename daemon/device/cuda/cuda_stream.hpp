#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/device/cuda/completion_ring.hpp"
#include "daemon/device/cuda/cuda_context.hpp"
#include "daemon/device/cuda/kernel_chain.hpp"
#include "daemon/device/device.hpp"

namespace penstock {

/// Owns a CUDA event or stream. Empty only when moved from.
template <typename Handle, cudaError_t (*destroy)(Handle)>
class cuda_handle {
 public:
  cuda_handle(cuda_context& context, Handle handle) noexcept : context_(&context), handle_(handle) {}
  cuda_handle(cuda_handle&& other) noexcept
      : context_(other.context_), handle_(std::exchange(other.handle_, nullptr)) {}
  cuda_handle& operator=(cuda_handle&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~cuda_handle() {
    if (handle_ != nullptr) {
      context_->enter_regardless();
      static_cast<void>(context_->leave(destroy(handle_)));
    }
  }

  [[nodiscard]] Handle get() const noexcept { return handle_; }

 private:
  cuda_context* context_;
  Handle handle_;
};
using event_handle = cuda_handle<cudaEvent_t, cudaEventDestroy>;
using stream_handle = cuda_handle<cudaStream_t, cudaStreamDestroy>;

/// Keeps times only if it is `timed`, which makes recording it dearer. Throws device_error.
[[nodiscard]] event_handle make_event(cuda_context& context, bool timed);
/// Never synchronizes with the default stream. `priority` is CUDA's: a lower number goes first. Throws device_error.
[[nodiscard]] stream_handle make_stream(cuda_context& context, int priority);

/// An event of the CUDA device.
class cuda_event final : public event {
 public:
  cuda_event(cuda_context& context, bool timed)
      : context_(context), handle_(make_event(context, timed)), timed_(timed) {}

  state query(fault& why) noexcept override;
  [[nodiscard]] double elapsed_us(const event& earlier) const noexcept override;

  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_.get(); }
  /// A stream has recorded it, for the first time or again.
  void mark_recorded() noexcept { recorded_ = true; }
  /// A blocking_stream is to record it: it is pending until that stream's thread has.
  void mark_awaited() noexcept {
    recorded_ = true;
    awaited_.fetch_add(1, std::memory_order_relaxed);
  }
  void mark_arrived() noexcept { awaited_.fetch_sub(1, std::memory_order_release); }

 private:
  cuda_context& context_;
  event_handle handle_;
  bool timed_;
  bool recorded_ = false;
  std::atomic<std::uint32_t> awaited_{0};
};

/// A stream of the CUDA device.
///
/// The driver's own queue holds about a thousand pieces of work a stream; a call beyond that would block until some
/// are done. A shard stays far below: two batches of about 8 calls and one a stage.
class cuda_stream final : public stream {
 public:
  cuda_stream(std::shared_ptr<cuda_context> context, int priority);
  /// Waits for the work and for the completions. On a failed device, where the driver reports the error before it has
  /// run them, it gives them a few seconds, and else leaves their records to the process's end.
  ~cuda_stream() override;

  fault copy_in(void* device, const void* pinned, std::size_t bytes) noexcept override;
  fault copy_out(void* pinned, const void* device, std::size_t bytes) noexcept override;
  /// From the runtime of CUDA 13 on with one call, which takes a third of the time of a call for each.
  fault copy_pieces_in(const copy_list& pieces) noexcept override;
  fault copy_pieces_out(const copy_list& pieces) noexcept override;
  fault launch(operation& work, const operation_arguments& arguments) noexcept override;
  fault flush() noexcept override { return enter(); }
  fault record(event& point) noexcept override;
  fault wait(const event& point) noexcept override;
  fault on_complete(completion_function function, void* context) noexcept override;
  /// On a failed device it returns at once, possibly before the completions have run.
  fault synchronize() noexcept override;

 private:
  /// Before each call on the stream that is no kernel.
  [[nodiscard]] fault enter() noexcept;
  [[nodiscard]] fault copy_together(const copy_list& pieces) noexcept;
  [[nodiscard]] fault copy_anywhere(const copy_list& pieces) noexcept;

  std::shared_ptr<cuda_context> context_;
  std::unique_ptr<completion_ring> completions_;
  stream_handle handle_;
  kernel_chain kernels_;
};

}  // namespace penstock
