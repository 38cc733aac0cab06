#pragma once

#include <cstddef>
#include <memory>

#include "daemon/device/cuda/completion_ring.hpp"
#include "daemon/device/cuda/cuda_context.hpp"
#include "daemon/device/cuda/kernel_chain.hpp"
#include "daemon/device/cuda/stream_handle.hpp"
#include "daemon/device/device.hpp"

namespace penstock {

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
  fault launch(operation& what, const operation_arguments& arguments) noexcept override;
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

  std::shared_ptr<cuda_context> context_;
  std::unique_ptr<completion_ring> completions_;
  stream_handle handle_;
  kernel_chain kernels_;
};

}  // namespace penstock
