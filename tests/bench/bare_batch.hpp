#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/bare_kernels.hpp"
#include "tests/bench/wake_up.hpp"

namespace penstock::bench {

/// How the host learns that a batch is done.
enum class notice {
  callback,        ///< cudaStreamAddCallback
  host_function,   ///< cudaLaunchHostFunc
  event,           ///< an event, asked with cudaEventQuery
  flag_behind,     ///< a small kernel behind the batch writes a word in mapped memory
  flag_by_stream,  ///< cuStreamWriteValue32 writes it
  flag_in_kernel,  ///< the batch's last kernel writes it
};

/// One way to run a batch.
struct batch_form {
  const char* name;
  notice told = notice::event;
  bool asleep = false;         ///< with callback and host_function: the waiting thread sleeps until it is woken
  bool graph = false;          ///< copies and kernels as one graph
  bool updated = false;        ///< whose kernels get new arguments before each launch
  bool together = false;       ///< each copy by cudaMemcpyBatchAsync
  bool mapped_input = false;   ///< the kernel reads the input from mapped memory: no copy in
  bool mapped_output = false;  ///< and writes the output there: no copy out
};

/// A batch of bare CUDA calls: copy in, kernels, copy out, notice; with memory of its own, used again and again. One
/// thread uses it. Immovable: CUDA holds its address.
class bare_batch {
 public:
  /// `bytes` in and as many out, a multiple of 16. `on` and `wake` must outlive it; `wake` is needed by forms that
  /// sleep. Runs it once, so that every kernel is loaded, and throws std::runtime_error when that gives a wrong result.
  bare_batch(const batch_form& form, cudaStream_t on, std::size_t bytes, int kernels, wake_up* wake = nullptr);
  bare_batch(const bare_batch&) = delete;
  bare_batch& operator=(const bare_batch&) = delete;
  /// Waits for what was submitted.
  ~bare_batch();

  /// Enqueues it; never waits. Only when the one before is done.
  void submit();
  /// Whether the host has been told of the batch submitted last. Throws std::runtime_error when the device failed.
  [[nodiscard]] bool done();
  /// Until it is done: spins, or sleeps where the form says so.
  void wait();
  /// Throws std::runtime_error unless the output is what the kernels should have made. Only when it is done.
  void check() const;

 private:
  struct kernel_node {
    cudaGraphNode_t node;
    cudaKernelNodeParams parameters;
    affine_arguments arguments;
  };

  void enqueue_work();
  void enqueue_notice();
  void copy(void* to, const void* from, cudaMemcpyKind kind);
  void load_kernels();
  void capture();
  void update_kernels();
  [[nodiscard]] bool notice_in_graph() const noexcept { return form_.told == notice::flag_behind; }
  void told(cudaError_t status) noexcept;
  static void CUDART_CB on_callback(cudaStream_t stream, cudaError_t status, void* batch);
  static void CUDART_CB on_host_function(void* batch);

  const batch_form form_;
  const cudaStream_t on_;
  const std::size_t bytes_;
  wake_up* const wake_;
  bare_pinned_memory pinned_input_;
  bare_pinned_memory pinned_output_;
  bare_pinned_memory pinned_flag_;
  bare_device_memory input_;
  bare_device_memory output_;
  bare_device_memory counts_;
  flag_words words_{};
  std::vector<affine_arguments> launches_;
  bare_event event_;
  bare_graph graph_;
  bare_program program_;
  std::vector<kernel_node> kernel_nodes_;
  unsigned submitted_ = 0;
  std::atomic<unsigned> told_{0};                 ///< written by CUDA's thread, read by the submitting one
  std::atomic<cudaError_t> status_{cudaSuccess};  ///< likewise, before told_
};

/// Forms that this build and driver can run, of those given.
[[nodiscard]] std::vector<batch_form> available(const std::vector<batch_form>& forms);

}  // namespace penstock::bench
