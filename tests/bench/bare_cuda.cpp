#include "tests/bench/bare_cuda.hpp"

#include <chrono>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace penstock::bench {
namespace {

double cpu_seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

float input_at(std::size_t index) {
  return static_cast<float>(index % 97);
}

}  // namespace

void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw std::runtime_error(
        fmt::format("{} failed: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status)));
  }
}

bare_stream make_bare_stream() {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return bare_stream(stream);
}

std::vector<bare_stream> make_bare_streams(std::size_t count) {
  std::vector<bare_stream> streams;
  while (streams.size() < count) {
    streams.push_back(make_bare_stream());
  }
  return streams;
}

bare_event make_bare_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return bare_event(event);
}

bare_device_memory make_bare_device_memory(std::size_t bytes) {
  void* place = nullptr;
  require(cudaMalloc(&place, bytes), "cudaMalloc");
  bare_device_memory memory(static_cast<std::byte*>(place));
  require(cudaMemset(place, 0, bytes), "cudaMemset");
  require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // other streams do not wait for this one
  return memory;
}

bare_pinned_memory make_bare_pinned_memory(std::size_t bytes) {
  void* place = nullptr;
  require(cudaHostAlloc(&place, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
  bare_pinned_memory memory(static_cast<std::byte*>(place));
  std::memset(place, 0, bytes);
  return memory;
}

nlohmann::ordered_json use_gpu(const bench_options& options) {
  if (options.backend != "cuda") {
    throw no_gpu("this benchmark measures a GPU: ask for it with --backend cuda");
  }
  int driver = 0;
  int devices = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    throw no_gpu("this benchmark measures a GPU, and this machine has no NVIDIA driver");
  }
  if (const cudaError_t counted = cudaGetDeviceCount(&devices); counted != cudaSuccess || devices == 0) {
    throw no_gpu(fmt::format("this benchmark measures a GPU, and none can be used ({})", cudaGetErrorName(counted)));
  }
  require(cudaSetDevice(0), "cudaSetDevice");
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return {{"backend", "cuda"},
          {"name", properties.name},
          {"detail", fmt::format("driver for CUDA {}, runtime {}, compute capability {}.{}", version_text(driver),
                                 version_text(CUDART_VERSION), properties.major, properties.minor)}};
}

double process_cpu_seconds() {
  return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double thread_cpu_seconds() {
  return cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

void patience::look() {
  constexpr double max_seconds = 10;
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (polls_ == polls_per_look) {
    first_look_ = now;
  } else if (now - first_look_ > max_seconds) {
    require(cudaStreamQuery(cudaStreamPerThread), "the device's work");
    throw std::runtime_error("the device has completed nothing for ten seconds");
  }
}

bare_batch::bare_batch(const batch_form& form, cudaStream_t stream, std::size_t bytes)
    : form_(form),
      stream_(stream),
      bytes_(bytes),
      pinned_input_(make_bare_pinned_memory(bytes)),
      pinned_output_(make_bare_pinned_memory(bytes)),
      pinned_flag_(make_bare_pinned_memory(sizeof(unsigned))),
      input_(make_bare_device_memory(bytes)),
      output_(make_bare_device_memory(bytes)),
      counts_(make_bare_device_memory(2 * sizeof(unsigned))),
      event_(make_bare_event()) {
  auto* const counts = reinterpret_cast<unsigned*>(counts_.get());
  words_ = {reinterpret_cast<unsigned*>(pinned_flag_.get()), counts, counts + 1};
  auto* const values = reinterpret_cast<float*>(pinned_input_.get());
  for (std::size_t at = 0; at < bytes / sizeof(float); ++at) {
    values[at] = input_at(at);
  }
  if (form_.graph) {
    enqueue_work();  // loads the kernel, which a capture should not see
    require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    capture();
  }
  submit();
  wait();
  check();
}

bare_batch::~bare_batch() {
  static_cast<void>(cudaStreamSynchronize(stream_));
}

void bare_batch::submit() {
  ++submitted_;
  if (graph_exec_) {
    require(cudaGraphLaunch(graph_exec_.get(), stream_), "cudaGraphLaunch");
  } else {
    enqueue_work();
  }
  enqueue_notice();
}

void bare_batch::enqueue_work() {
  const auto floats = static_cast<unsigned>(bytes_ / sizeof(float));
  if (form_.told == notice::flag) {
    return launch_affine_with_flag(
        stream_,
        {reinterpret_cast<const float*>(pinned_input_.get()), reinterpret_cast<float*>(pinned_output_.get()), floats},
        words_);
  }
  require(cudaMemcpyAsync(input_.get(), pinned_input_.get(), bytes_, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync");
  launch_affine(stream_,
                {reinterpret_cast<const float*>(input_.get()), reinterpret_cast<float*>(output_.get()), floats});
  require(cudaMemcpyAsync(pinned_output_.get(), output_.get(), bytes_, cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync");
}

void bare_batch::enqueue_notice() {
  switch (form_.told) {
    case notice::callback:
      return require(cudaStreamAddCallback(stream_, on_callback, this, 0), "cudaStreamAddCallback");
    case notice::host_function:
      return require(cudaLaunchHostFunc(stream_, on_host_function, this), "cudaLaunchHostFunc");
    case notice::event:
      return require(cudaEventRecord(event_.get(), stream_), "cudaEventRecord");
    case notice::flag:
      return;
  }
}

void bare_batch::capture() {
  require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  enqueue_work();
  cudaGraph_t graph = nullptr;
  require(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  graph_.reset(graph);
  cudaGraphExec_t executable = nullptr;
  require(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  graph_exec_.reset(executable);
  require(cudaGraphUpload(executable, stream_), "cudaGraphUpload");
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
    case notice::flag:
      return std::atomic_ref(*words_.flag).load(std::memory_order_acquire) == submitted_;
  }
  return true;
}

void bare_batch::wait() {
  patience left;
  while (!done()) {
    left.poll();
  }
}

void bare_batch::check() const {
  const auto* const values = reinterpret_cast<const float*>(pinned_output_.get());
  for (std::size_t at = 0; at < bytes_ / sizeof(float); ++at) {
    if (values[at] != 2 * input_at(at) + 1) {
      throw std::runtime_error(std::string("a batch has a wrong result: ") + form_.name);
    }
  }
}

// After the second store the batch may be submitted again.
void bare_batch::told(cudaError_t status) noexcept {
  status_.store(status, std::memory_order_relaxed);
  told_.fetch_add(1, std::memory_order_release);
}

void CUDART_CB bare_batch::on_callback(cudaStream_t /*stream*/, cudaError_t status, void* batch) {
  static_cast<bare_batch*>(batch)->told(status);
}

void CUDART_CB bare_batch::on_host_function(void* batch) {
  static_cast<bare_batch*>(batch)->told(cudaSuccess);
}

}  // namespace penstock::bench
