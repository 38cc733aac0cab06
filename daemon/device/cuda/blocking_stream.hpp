#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "daemon/device/cuda/cuda_context.hpp"
#include "daemon/device/cuda/cuda_stream.hpp"
#include "daemon/device/device.hpp"

namespace penstock {

/// A stream of the CUDA device whose operations work on host memory and block, such as a product by cuBLAS-Xt: a thread
/// of its own runs them and waits for each copy, in order. What counts as device memory for other streams is host
/// memory here. See device::open_blocking_stream.
///
/// Its events are a cuda_event that the thread records when it comes to it, on a CUDA stream that has no other work.
class blocking_stream final : public stream {
 public:
  /// Throws device_error.
  explicit blocking_stream(std::shared_ptr<cuda_context> context);
  /// Waits for the work and for the completions. On a failed device, where a library's call may never return, it gives
  /// them a few seconds, and else leaves the thread and its memory to the process's end.
  ~blocking_stream() override;

  fault copy_in(void* device, const void* pinned, std::size_t bytes) noexcept override;
  fault copy_out(void* pinned, const void* device, std::size_t bytes) noexcept override;
  fault launch(operation& work, const operation_arguments& arguments) noexcept override;
  fault record(event& point) noexcept override;
  /// Always refused: nothing has two streams of which one blocks.
  fault wait(const event& point) noexcept override;
  fault on_complete(completion_function function, void* context) noexcept override;
  /// Returns the fault of the work since the last completion, and forgets it.
  fault synchronize() noexcept override;

 private:
  struct copy {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
  };
  struct launched {
    operation* work = nullptr;
    operation_arguments arguments;
  };
  struct completion {
    completion_function function = nullptr;
    void* context = nullptr;
  };
  struct end {};
  using command = std::variant<end, copy, launched, cuda_event*, completion>;

  /// All that the thread uses: it outlives the stream when a call never returns.
  struct queue {
    explicit queue(std::shared_ptr<cuda_context> device);

    void serve() noexcept;
    void execute(const command& next) noexcept;

    std::shared_ptr<cuda_context> context;
    stream_handle markers;  // copies, and records events
    std::vector<command> commands;
    std::atomic<std::uint64_t> put{0};   // raised by the stream's thread
    std::atomic<std::uint64_t> done{0};  // raised by the queue's
    /// Of the work since the last completion; written by the queue's thread, taken by the stream's while that is idle.
    std::atomic<const char*> failed{nullptr};
  };

  /// Copies of a batch of as many requests as a slot can hold, several times over.
  static constexpr std::size_t capacity = 16384;

  [[nodiscard]] fault enqueue(const command& next) noexcept;
  void put(const command& next) noexcept;

  std::unique_ptr<queue> queue_;
  std::thread thread_;
};

}  // namespace penstock
