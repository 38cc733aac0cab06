#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/device/cuda/cuda_context.hpp"
#include "daemon/device/device.hpp"

namespace penstock {

/// The completions that a CUDA stream has accepted and not yet run. The stream's thread arms a record and gives its
/// address to the driver; the driver's thread frees it, in `run`, once the function has returned. The records are a
/// fixed ring: nothing is allocated on the hot path. Immovable: the driver holds their addresses.
class completion_ring {
 public:
  /// Completions that one stream can have on their way; a shard has at most two batches on a stream.
  static constexpr std::size_t capacity = 1024;

  explicit completion_ring(std::shared_ptr<cuda_context> context);
  completion_ring(const completion_ring&) = delete;
  completion_ring& operator=(const completion_ring&) = delete;

  /// Enqueues the completion with cudaStreamAddCallback. A fault means that the function never runs, else it runs
  /// exactly once. "COMPLETION_RING_FULL" at the capacity. Stream's thread.
  fault enqueue(cudaStream_t stream, completion_function function, void* context) noexcept;
  /// Whether nothing that was accepted is still to run, or runs.
  [[nodiscard]] bool empty() const noexcept;

 private:
  enum class state : std::uint8_t { free, armed, running };

  struct record {
    completion_ring* owner = nullptr;
    completion_function function = nullptr;
    void* context = nullptr;
    // The stream's thread arms it before the driver has the record; a compare-exchange decides which thread ends it.
    std::atomic<state> now{state::free};
  };

  static void CUDART_CB run(cudaStream_t stream, cudaError_t status, void* user) noexcept;

  std::shared_ptr<cuda_context> context_;
  std::array<record, capacity> records_;
  std::size_t next_ = 0;  // stream's thread only
};

}  // namespace penstock
