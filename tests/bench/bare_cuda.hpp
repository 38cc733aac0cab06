#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>
#include <nlohmann/json.hpp>

#include "tests/bench/harness.hpp"

// Plain CUDA without anything of Penstock: the limit that the device sets.

namespace penstock::bench {

/// Throws std::runtime_error with the names of the call and the error unless it succeeded.
void require(cudaError_t status, const char* call);

template <auto Close>
struct closes {
  template <typename Pointed>
  void operator()(Pointed* handle) const noexcept {
    static_cast<void>(Close(handle));
  }
};

using bare_stream = std::unique_ptr<CUstream_st, closes<cudaStreamDestroy>>;
using bare_event = std::unique_ptr<CUevent_st, closes<cudaEventDestroy>>;
using bare_graph = std::unique_ptr<CUgraph_st, closes<cudaGraphDestroy>>;
using bare_graph_exec = std::unique_ptr<CUgraphExec_st, closes<cudaGraphExecDestroy>>;
using bare_device_memory = std::unique_ptr<std::byte[], closes<cudaFree>>;
using bare_pinned_memory = std::unique_ptr<std::byte[], closes<cudaFreeHost>>;

/// Non-blocking.
[[nodiscard]] bare_stream make_bare_stream();
[[nodiscard]] std::vector<bare_stream> make_bare_streams(std::size_t count);
/// Without timing.
[[nodiscard]] bare_event make_bare_event();
/// Zeroed.
[[nodiscard]] bare_device_memory make_bare_device_memory(std::size_t bytes);
/// Zeroed and mapped: kernels use the same address.
[[nodiscard]] bare_pinned_memory make_bare_pinned_memory(std::size_t bytes);

/// Selects the first GPU for this thread and returns its backend, name and detail. Throws no_gpu if there is none or
/// the options name another backend.
[[nodiscard]] nlohmann::ordered_json use_gpu(const bench_options& options);

/// CPU seconds of this process, or of this thread, so far.
[[nodiscard]] double process_cpu_seconds();
[[nodiscard]] double thread_cpu_seconds();

/// Ends a wait for a device that no longer makes progress.
class patience {
 public:
  /// Something happened.
  void renew() noexcept { polls_ = 0; }
  /// One poll without progress. Throws std::runtime_error after ten seconds of them, with the device's error if there
  /// is one.
  void poll() {
    if (++polls_ % polls_per_look == 0) {
      look();
    }
  }

 private:
  static constexpr unsigned long polls_per_look = 1UL << 16U;
  void look();

  unsigned long polls_ = 0;
  double first_look_ = 0;
};

/// output = 2 × input + 1. Device or mapped memory, aligned to 16 bytes; `floats` is a multiple of 4; may be in place.
struct affine_arguments {
  const float* input;
  float* output;
  unsigned floats;
};

/// Words with which a kernel tells the host that it is done: `flag`, in mapped memory, becomes the number of launches.
/// The other two are in device memory and start at 0.
struct flag_words {
  unsigned* flag;
  unsigned* launches;
  unsigned* blocks_done;
};

/// These enqueue, and throw std::runtime_error if the launch fails.
void launch_affine(cudaStream_t stream, const affine_arguments& arguments);
/// The last block writes the flag.
void launch_affine_with_flag(cudaStream_t stream, const affine_arguments& arguments, const flag_words& words);

/// How the host learns that a batch is done.
enum class notice {
  callback,       ///< cudaStreamAddCallback
  host_function,  ///< cudaLaunchHostFunc
  event,          ///< cudaEventQuery
  flag,           ///< the kernel works on mapped memory without copies, and writes a word there
};

struct batch_form {
  const char* name;
  notice told = notice::event;
  bool graph = false;  ///< copies and kernel are launched as one graph
};

/// A batch of plain CUDA calls: copy in, kernel, copy out, notice. Its memory is used again and again. Thread: one.
/// Immovable: CUDA holds its address.
class bare_batch {
 public:
  /// `bytes` in and as many out, a multiple of 16. `stream` must outlive it. Runs once, and throws std::runtime_error
  /// if the result is wrong.
  bare_batch(const batch_form& form, cudaStream_t stream, std::size_t bytes);
  bare_batch(const bare_batch&) = delete;
  bare_batch& operator=(const bare_batch&) = delete;
  /// Waits for what was submitted.
  ~bare_batch();

  /// Enqueues it without waiting. Only when the previous one is done.
  void submit();
  /// Whether the host knows that the last one is done. Throws std::runtime_error if the device failed.
  [[nodiscard]] bool done();
  /// Polls until it is done.
  void wait();
  /// Throws std::runtime_error unless the output is right. Only when it is done.
  void check() const;

 private:
  void enqueue_work();
  void enqueue_notice();
  void capture();
  void told(cudaError_t status) noexcept;
  static void CUDART_CB on_callback(cudaStream_t stream, cudaError_t status, void* batch);
  static void CUDART_CB on_host_function(void* batch);

  const batch_form form_;
  const cudaStream_t stream_;
  const std::size_t bytes_;
  bare_pinned_memory pinned_input_;
  bare_pinned_memory pinned_output_;
  bare_pinned_memory pinned_flag_;
  bare_device_memory input_;
  bare_device_memory output_;
  bare_device_memory counts_;
  flag_words words_{};
  bare_event event_;
  bare_graph graph_;
  bare_graph_exec graph_exec_;
  unsigned submitted_ = 0;
  std::atomic<unsigned> told_{0};                 ///< written by CUDA's thread, read by the submitting one
  std::atomic<cudaError_t> status_{cudaSuccess};  ///< likewise, before told_
};

}  // namespace penstock::bench
