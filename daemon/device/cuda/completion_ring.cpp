#include "daemon/device/cuda/completion_ring.hpp"

#include <algorithm>
#include <utility>

namespace penstock {

completion_ring::completion_ring(std::shared_ptr<cuda_context> context) : context_(std::move(context)) {
  for (record& each : records_) {
    each.owner = this;
  }
}

fault completion_ring::enqueue(cudaStream_t stream, completion_function function, void* context) noexcept {
  record& free = records_[next_ % capacity];
  // Acquire: the thread that freed it no longer reads function and context.
  if (free.now.load(std::memory_order_acquire) != state::free) {
    return {"COMPLETION_RING_FULL"};
  }
  free.function = function;
  free.context = context;
  free.now.store(state::armed, std::memory_order_release);
  ++next_;
  const cudaError_t error = cudaStreamAddCallback(stream, run, &free, 0);
  if (error == cudaSuccess) {
    return {};
  }
  const fault refused = context_->leave(error);
  // The call may report an older, asynchronous failure. If the callback was enqueued all the same and has begun, it
  // counts as accepted; if it is still to come, it finds its record disarmed and does nothing.
  state expected = state::armed;
  return free.now.compare_exchange_strong(expected, state::free, std::memory_order_acq_rel) ? refused : fault{};
}

bool completion_ring::empty() const noexcept {
  return std::none_of(records_.begin(), records_.end(),
                      [](const record& each) { return each.now.load(std::memory_order_acquire) != state::free; });
}

void CUDART_CB completion_ring::run(cudaStream_t, cudaError_t status, void* user) noexcept {
  auto& mine = *static_cast<record*>(user);
  const completion_function function = mine.function;
  void* const context = mine.context;
  const fault outcome = mine.owner->context_->leave_callback(status);
  state expected = state::armed;
  if (mine.now.compare_exchange_strong(expected, state::running, std::memory_order_acq_rel)) {
    function(context, outcome);
    // From here on the record can be used again and the ring destroyed: nothing of them is touched any more.
    mine.now.store(state::free, std::memory_order_release);
  }
}

}  // namespace penstock
