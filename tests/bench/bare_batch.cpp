#include "tests/bench/bare_batch.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include <cuda.h>
#include <cudaTypedefs.h>

#include "tests/bench/patience.hpp"

namespace penstock::bench {
namespace {

// Of the driver's interface; nullptr where the driver has none.
PFN_cuStreamWriteValue32_v11070 stream_write_value() {
  static const auto found = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t asked =
        cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &entry, 12000, cudaEnableDefault, &result);
    return asked == cudaSuccess && result == cudaDriverEntryPointSuccess ? entry : nullptr;
  }();
  return reinterpret_cast<PFN_cuStreamWriteValue32_v11070>(found);
}

float input_at(std::size_t index) {
  return static_cast<float>(index % 97);
}

}  // namespace

bare_batch::bare_batch(const batch_form& form, cudaStream_t on, std::size_t bytes, int kernels, wake_up* wake)
    : form_(form),
      on_(on),
      bytes_(bytes),
      wake_(wake),
      pinned_input_(make_bare_pinned_memory(bytes)),
      pinned_output_(make_bare_pinned_memory(bytes)),
      pinned_flag_(make_bare_pinned_memory(sizeof(unsigned))),
      input_(make_bare_device_memory(bytes)),
      output_(make_bare_device_memory(bytes)),
      counts_(make_bare_device_memory(2 * sizeof(unsigned))),
      event_(make_bare_event()) {
  auto* const counts = reinterpret_cast<unsigned*>(counts_.get());
  words_ = {reinterpret_cast<unsigned*>(pinned_flag_.get()), counts, counts + 1};
  auto* const input = reinterpret_cast<float*>(form_.mapped_input ? pinned_input_.get() : input_.get());
  auto* const output = reinterpret_cast<float*>(form_.mapped_output ? pinned_output_.get() : output_.get());
  for (int kernel = 0; kernel < kernels; ++kernel) {
    launches_.push_back({kernel == 0 ? input : output, output, static_cast<unsigned>(bytes / sizeof(float)), 1});
  }
  auto* const values = reinterpret_cast<float*>(pinned_input_.get());
  for (std::size_t at = 0; at < bytes / sizeof(float); ++at) {
    values[at] = input_at(at);
  }
  if (form_.graph) {
    load_kernels();
    capture();
  }
  submit();
  wait();
  check();
}

bare_batch::~bare_batch() {
  static_cast<void>(cudaStreamSynchronize(on_));
}

void bare_batch::submit() {
  ++submitted_;
  if (program_) {
    if (form_.updated) {
      update_kernels();
    }
    require(cudaGraphLaunch(program_.get(), on_), "cudaGraphLaunch");
    if (notice_in_graph()) {
      return;
    }
  } else {
    enqueue_work();
  }
  enqueue_notice();
}

void bare_batch::enqueue_work() {
  if (!form_.mapped_input) {
    copy(input_.get(), pinned_input_.get(), cudaMemcpyHostToDevice);
  }
  for (const affine_arguments& each : launches_) {
    if (form_.told == notice::flag_in_kernel && &each == &launches_.back()) {
      launch_affine_and_tell(on_, each, words_);
    } else {
      launch_affine(on_, each);
    }
  }
  if (!form_.mapped_output) {
    copy(pinned_output_.get(), output_.get(), cudaMemcpyDeviceToHost);
  }
}

void bare_batch::copy(void* to, const void* from, cudaMemcpyKind kind) {
  if (form_.together) {
    copy_together(&to, &from, &bytes_, 1, on_);
  } else {
    require(cudaMemcpyAsync(to, from, bytes_, kind, on_), "cudaMemcpyAsync");
  }
}

void bare_batch::enqueue_notice() {
  switch (form_.told) {
    case notice::callback:
      return require(cudaStreamAddCallback(on_, on_callback, this, 0), "cudaStreamAddCallback");
    case notice::host_function:
      return require(cudaLaunchHostFunc(on_, on_host_function, this), "cudaLaunchHostFunc");
    case notice::event:
      return require(cudaEventRecord(event_.get(), on_), "cudaEventRecord");
    case notice::flag_behind:
      return launch_tell(on_, words_);
    case notice::flag_by_stream:
      if (stream_write_value()(on_, reinterpret_cast<CUdeviceptr>(words_.flag), submitted_, 0) != CUDA_SUCCESS) {
        throw std::runtime_error("cuStreamWriteValue32 failed");
      }
      return;
    case notice::flag_in_kernel:
      return;
  }
}

// A kernel's first launch loads it, which a capture should not see.
void bare_batch::load_kernels() {
  enqueue_work();
  if (notice_in_graph()) {
    enqueue_notice();
    ++submitted_;
  }
  require(cudaStreamSynchronize(on_), "cudaStreamSynchronize");
}

void bare_batch::capture() {
  require(cudaStreamBeginCapture(on_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  enqueue_work();
  if (notice_in_graph()) {
    enqueue_notice();
  }
  cudaGraph_t graph = nullptr;
  require(cudaStreamEndCapture(on_, &graph), "cudaStreamEndCapture");
  graph_.reset(graph);
  cudaGraphExec_t program = nullptr;
  require(cudaGraphInstantiate(&program, graph, 0), "cudaGraphInstantiate");
  program_.reset(program);
  require(cudaGraphUpload(program, on_), "cudaGraphUpload");
  if (!form_.updated) {
    return;
  }
  std::size_t count = 0;
  require(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  require(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    require(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    if (type == cudaGraphNodeTypeKernel) {
      cudaKernelNodeParams parameters{};
      require(cudaGraphKernelNodeGetParams(node, &parameters), "cudaGraphKernelNodeGetParams");
      kernel_nodes_.push_back({node, parameters, *static_cast<affine_arguments*>(parameters.kernelParams[0])});
    }
  }
}

void bare_batch::update_kernels() {
  const float offset = submitted_ % 2 == 0 ? 2 : 1;
  for (affine_arguments& each : launches_) {
    each.offset = offset;
  }
  for (kernel_node& each : kernel_nodes_) {
    each.arguments.offset = offset;
    void* arguments[] = {&each.arguments};
    each.parameters.kernelParams = arguments;
    require(cudaGraphExecKernelNodeSetParams(program_.get(), each.node, &each.parameters),
            "cudaGraphExecKernelNodeSetParams");
  }
}

bool bare_batch::done() {
  switch (form_.told) {
    case notice::callback:
    case notice::host_function: {
      const bool is_done = told_.load(std::memory_order_acquire) == submitted_;
      if (is_done) {
        require(status_.load(std::memory_order_relaxed), "the batch before its callback");
      }
      return is_done;
    }
    case notice::event: {
      const cudaError_t status = cudaEventQuery(event_.get());
      if (status != cudaErrorNotReady) {
        require(status, "cudaEventQuery");
      }
      return status == cudaSuccess;
    }
    case notice::flag_behind:
    case notice::flag_by_stream:
    case notice::flag_in_kernel:
      return std::atomic_ref(*words_.flag).load(std::memory_order_acquire) == submitted_;
  }
  return true;
}

void bare_batch::wait() {
  patience left;
  while (!done()) {
    if (form_.asleep) {
      if (!wake_->rest(patience::seconds)) {
        patience::end();
      }
    } else {
      left.turn();
    }
  }
}

void bare_batch::check() const {
  const auto* const values = reinterpret_cast<const float*>(pinned_output_.get());
  for (std::size_t at = 0; at < bytes_ / sizeof(float); ++at) {
    float expected = input_at(at);
    for (const affine_arguments& each : launches_) {
      expected = 2 * expected + each.offset;
    }
    if (values[at] != expected) {
      throw std::runtime_error(std::string("a batch gave a wrong result: ") + form_.name);
    }
  }
}

void bare_batch::told(cudaError_t status) noexcept {
  status_.store(status, std::memory_order_relaxed);
  // After the store the batch may be submitted again; only what outlives it is touched then.
  wake_up* const wake = form_.asleep ? wake_ : nullptr;
  told_.fetch_add(1, std::memory_order_release);
  if (wake != nullptr) {
    wake->ring();
  }
}

void CUDART_CB bare_batch::on_callback(cudaStream_t /*stream*/, cudaError_t status, void* batch) {
  static_cast<bare_batch*>(batch)->told(status);
}

void CUDART_CB bare_batch::on_host_function(void* batch) {
  static_cast<bare_batch*>(batch)->told(cudaSuccess);
}

std::vector<batch_form> available(const std::vector<batch_form>& forms) {
  std::vector<batch_form> some;
  std::copy_if(forms.begin(), forms.end(), std::back_inserter(some), [](const batch_form& each) {
    return (!each.together || can_copy_together()) &&
           (each.told != notice::flag_by_stream || stream_write_value() != nullptr);
  });
  return some;
}

}  // namespace penstock::bench
