#include "daemon/device/cuda/cuda_stream.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace penstock {
namespace {

constexpr std::chrono::seconds completion_patience{5};
// cudaMemcpyBatchAsync, as it is called here, came with the runtime of CUDA 13.
constexpr bool copies_together = CUDART_VERSION >= 13000;

}  // namespace

event_handle make_event(cuda_context& context, bool timed) {
  cudaEvent_t made = nullptr;
  context.enter_or_throw();
  context.require(cudaEventCreateWithFlags(&made, timed ? cudaEventDefault : cudaEventDisableTiming), "no CUDA event");
  return {context, made};
}

stream_handle make_stream(cuda_context& context, int priority) {
  cudaStream_t made = nullptr;
  context.enter_or_throw();
  context.require(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority), "no CUDA stream");
  return {context, made};
}

event::state cuda_event::query(fault& why) noexcept {
  if (fault failed = context_.enter()) {
    why = failed;
    return context_.failure() ? state::failed : state::refused;
  }
  if (awaited_.load(std::memory_order_acquire) != 0) {
    return state::pending;
  }
  const cudaError_t error = cudaEventQuery(handle_.get());
  const fault met = context_.leave(error);
  if (error == cudaErrorNotReady) {
    return state::pending;
  }
  if (met) {
    why = met;
    return context_.failure() ? state::failed : state::refused;
  }
  return state::reached;
}

double cuda_event::elapsed_us(const event& earlier) const noexcept {
  const auto& start = static_cast<const cuda_event&>(earlier);
  if (!timed_ || !start.timed_ || !recorded_ || !start.recorded_ || awaited_.load(std::memory_order_acquire) != 0 ||
      start.awaited_.load(std::memory_order_acquire) != 0 || context_.enter()) {
    return -1;
  }
  // An event that is not reached yet makes this an error that `leave` takes off the thread.
  float milliseconds = 0;
  if (context_.leave(cudaEventElapsedTime(&milliseconds, start.get(), get()))) {
    return -1;
  }
  return static_cast<double>(milliseconds) * 1000.0;
}

cuda_stream::cuda_stream(std::shared_ptr<cuda_context> context, int priority)
    : context_(std::move(context)),
      completions_(std::make_unique<completion_ring>(context_)),
      handle_(make_stream(*context_, priority)),
      kernels_(*context_, handle_.get()) {}

cuda_stream::~cuda_stream() {
  context_->enter_regardless();
  static_cast<void>(context_->leave(cudaStreamSynchronize(handle_.get())));
  const auto give_up = std::chrono::steady_clock::now() + completion_patience;
  while (!completions_->empty() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  if (!completions_->empty()) {
    static_cast<void>(completions_.release());  // the driver still has their addresses
  }
}

fault cuda_stream::enter() noexcept {
  const fault failed = context_->enter();
  return failed ? failed : kernels_.flush();
}

fault cuda_stream::copy_in(void* device, const void* pinned, std::size_t bytes) noexcept {
  if (fault failed = enter()) {
    return failed;
  }
  return context_->leave(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, handle_.get()));
}

fault cuda_stream::copy_out(void* pinned, const void* device, std::size_t bytes) noexcept {
  if (fault failed = enter()) {
    return failed;
  }
  return context_->leave(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, handle_.get()));
}

fault cuda_stream::copy_pieces_in(const copy_list& pieces) noexcept {
  if (pieces.within_device && !(copies_together && pieces.size() > 1)) {
    return copy_anywhere(pieces);
  }
  return copies_together && pieces.size() > 1 ? copy_together(pieces) : stream::copy_pieces_in(pieces);
}

fault cuda_stream::copy_pieces_out(const copy_list& pieces) noexcept {
  if (pieces.within_device && !(copies_together && pieces.size() > 1)) {
    return copy_anywhere(pieces);
  }
  return copies_together && pieces.size() > 1 ? copy_together(pieces) : stream::copy_pieces_out(pieces);
}

// CUDA sees by each address in which memory it lies.
fault cuda_stream::copy_anywhere(const copy_list& pieces) noexcept {
  fault failed = enter();
  for (std::size_t at = 0; at < pieces.size() && !failed; ++at) {
    failed = context_->leave(
        cudaMemcpyAsync(pieces.to[at], pieces.from[at], pieces.bytes[at], cudaMemcpyDefault, handle_.get()));
  }
  return failed;
}

fault cuda_stream::copy_together([[maybe_unused]] const copy_list& pieces) noexcept {
  if (fault failed = enter()) {
    return failed;
  }
#if CUDART_VERSION >= 13000
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  return context_->leave(cudaMemcpyBatchAsync(pieces.to.data(), pieces.from.data(), pieces.bytes.data(), pieces.size(),
                                              &attributes, &first, 1, handle_.get()));
#else
  return context_->leave(cudaErrorNotSupported);
#endif
}

fault cuda_stream::launch(operation& work, const operation_arguments& arguments) noexcept {
  if (fault failed = context_->enter()) {
    return failed;
  }
  const fault met = work.run(&kernels_, arguments);
  if (met) {
    // The operation has taken its own error; a sticky one still stands.
    static_cast<void>(context_->leave(cudaPeekAtLastError()));
  }
  return met;
}

fault cuda_stream::record(event& point) noexcept {
  if (fault failed = enter()) {
    return failed;
  }
  auto& recorded = static_cast<cuda_event&>(point);
  const fault failed = context_->leave(cudaEventRecord(recorded.get(), handle_.get()));
  if (!failed) {
    recorded.mark_recorded();
  }
  return failed;
}

fault cuda_stream::wait(const event& point) noexcept {
  if (fault failed = enter()) {
    return failed;
  }
  return context_->leave(cudaStreamWaitEvent(handle_.get(), static_cast<const cuda_event&>(point).get(), 0));
}

fault cuda_stream::on_complete(completion_function function, void* context) noexcept {
  if (fault failed = enter()) {
    return failed;
  }
  return completions_->enqueue(handle_.get(), function, context);
}

fault cuda_stream::synchronize() noexcept {
  if (fault failed = enter()) {
    return failed;
  }
  return context_->leave(cudaStreamSynchronize(handle_.get()));
}

}  // namespace penstock
