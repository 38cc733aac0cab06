// A CUDA runtime without a GPU: what the CUDA module and its kernels' queue call, and nothing else. Streams are
// in-order queues with a thread each, memory is the heap's, a kernel runs a host operation.
//
// A test makes calls fail through a file that it shares with the process, named by FAKE_CUDA_CONTROL: see `control`.
// The same is written in tests/system/fake_cuda.py.
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake_cuda/fake_kernel.hpp"
#include "tests/fake_cuda/fake_machine.hpp"

namespace {

using penstock::testing::fake_kernel;

enum class kind : std::uint32_t {
  refused = 1,   ///< the call does nothing and fails with a fault that is none of the device's
  sticky = 2,    ///< the device fails: this call and all others, and what is enqueued
  enqueued = 3,  ///< the call does what it should, and says that it failed
  never = 4      ///< the call says that it succeeded, and does nothing
};

/// Counts are of calls that can fail, of any thread.
struct control {
  std::atomic<std::uint64_t> calls;      ///< since the start
  std::atomic<std::uint64_t> countdown;  ///< the call that brings it to 0 fails; at 0 none does
  std::atomic<kind> how;
  std::atomic<std::uint32_t> failed;     ///< calls that were made to fail
  char only[48];                         ///< the function that counts down; "" for all
  char met[48];                          ///< which failed last
  std::atomic<std::uint64_t> libraries;  ///< of machine code, that are loaded
};

control& shared_control() {
  static control& mapped = [&]() -> control& {
    const char* const path = std::getenv("FAKE_CUDA_CONTROL");
    const int file = path != nullptr ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
    void* const memory = ::mmap(nullptr, sizeof(control), PROT_READ | PROT_WRITE,
                                file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
    if (memory == MAP_FAILED) {
      std::abort();
    }
    return *static_cast<control*>(memory);
  }();
  return mapped;
}

constexpr cudaError_t refusal = cudaErrorMemoryAllocation;
constexpr cudaError_t failure = cudaErrorIllegalAddress;

std::atomic<bool> failed_for_good{false};
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t noted(cudaError_t error) noexcept {
  last_error = error != cudaSuccess && error != cudaErrorNotReady ? error : last_error;
  return error;
}

// Everything that streams and events hold is under one lock. Never destroyed: streams of a device that has failed can't
// be either, and their threads still wait here when the process ends.
std::mutex& mutex = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;

void fail_for_good() {
  failed_for_good = true;
  const std::lock_guard lock(mutex);
  changed.notify_all();
}

template <class Body>
cudaError_t call(std::string_view name, const Body& body) {
  control& shared = shared_control();
  if (failed_for_good) {
    return noted(failure);
  }
  ++shared.calls;
  kind how{};
  if (shared.countdown != 0 && (shared.only[0] == '\0' || name == shared.only) && shared.countdown.fetch_sub(1) == 1) {
    how = shared.how;
    std::strncpy(shared.met, name.data(), sizeof shared.met - 1);
    ++shared.failed;
  }
  switch (how) {
    case kind::refused:
      return noted(refusal);
    case kind::sticky:
      fail_for_good();
      return noted(failure);
    case kind::enqueued:
      (void)body();
      return noted(refusal);
    case kind::never:
      return cudaSuccess;
  }
  return noted(body());
}

}  // namespace

struct CUevent_st {
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
  std::chrono::steady_clock::time_point at;
};

struct CUstream_st {
  struct work {
    std::function<void()> run;
    std::function<void(cudaError_t)> tell;  // of a callback, which is told of a failure
    std::function<bool()> ready;            // of a wait
  };

  CUstream_st() : thread_([this] { serve(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      ending_ = true;
      changed.notify_all();
    }
    thread_.join();
  }

  void put(work what) {
    const std::lock_guard lock(mutex);
    queue_.push_back(std::move(what));
    changed.notify_all();
  }

  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return (queue_.empty() && !busy_) || failed_for_good; });
  }

  CUgraph_st* captured = nullptr;  // what it captures into; its thread only

 private:
  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] {
        return queue_.empty() ? ending_ : failed_for_good || !queue_.front().ready || queue_.front().ready();
      });
      if (queue_.empty()) {
        return;
      }
      const work next = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      if (next.run && !failed_for_good) {
        next.run();
      }
      if (next.tell) {
        next.tell(failed_for_good ? failure : cudaSuccess);
      }
      lock.lock();
      busy_ = false;
      changed.notify_all();
    }
  }

  std::deque<work> queue_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;  // last: it uses what stands above
};

struct CUgraphNode_st {
  std::function<void()> run;
};

struct CUgraph_st {
  std::vector<CUgraphNode_st*> nodes;

  CUgraphNode_st* add(std::function<void()> run) { return nodes.emplace_back(new CUgraphNode_st{std::move(run)}); }
};

// It has the nodes of its graph, which lives as long.
struct CUgraphExec_st {
  CUgraph_st* graph = nullptr;
};

namespace {

// Captures of this thread that have begun; until they end, calls that wait or allocate fail.
thread_local int captures = 0;

void enqueue(cudaStream_t on, std::function<void()> run) {
  if (on == cudaStreamPerThread) {
    run();
  } else if (on->captured != nullptr) {
    on->captured->add(std::move(run));
  } else {
    on->put({std::move(run), nullptr, nullptr});
  }
}

using penstock::testing::kernel_end;
using penstock::testing::loaded_kernel;
using penstock::testing::loaded_library;

/// Libraries by their handles, and the sizes of their kernels' parameters by theirs: both are addresses of ours.
std::map<cudaLibrary_t, std::unique_ptr<loaded_library>>& libraries() {
  static auto& all = *new std::map<cudaLibrary_t, std::unique_ptr<loaded_library>>;
  return all;
}

/// nullptr if the function is none of a library.
const loaded_kernel* find_loaded(const void* function) {
  const std::lock_guard lock(mutex);
  for (const auto& [handle, library] : libraries()) {
    for (const auto& [name, kernel] : library->kernels) {
      if (&kernel == function) {
        return &kernel;
      }
    }
  }
  return nullptr;
}

constexpr std::size_t kernel_parameters = 4;

void run_loaded(const loaded_kernel& kernel, const std::array<std::uint64_t, kernel_parameters>& values) {
  std::array<void*, kernel_parameters> places{};
  for (std::size_t at = 0; at < places.size(); ++at) {
    places[at] = const_cast<std::uint64_t*>(&values[at]);
  }
  switch (penstock::testing::run_kernel(kernel, places.data())) {
    case kernel_end::done:
      return;
    case kernel_end::faulted:
      fail_for_good();
      return;
    case kernel_end::never:
      break;
  }
  for (;;) {
    ::pause();
  }
}

// The arguments are copied, as a launch does.
std::function<void()> work_of(const void* kernel, void* const* arguments) {
  if (const penstock::testing::host_kernel* const ours = penstock::testing::find_host_kernel(kernel)) {
    std::array<std::vector<std::byte>, 2> values;
    for (std::size_t at = 0; at < values.size() && ours->sizes[at] != 0; ++at) {
      const auto* const from = static_cast<const std::byte*>(arguments[at]);
      values[at].assign(from, from + ours->sizes[at]);
    }
    return [ours, values = std::move(values)]() mutable {
      const std::array<void*, 2> places{values[0].data(), values[1].data()};
      ours->run(places.data());
    };
  }
  if (const loaded_kernel* const loaded = find_loaded(kernel)) {
    std::array<std::uint64_t, kernel_parameters> values{};
    for (std::size_t at = 0; at < values.size(); ++at) {
      std::memcpy(&values[at], arguments[at], sizeof values[at]);
    }
    return [code = *loaded, values] { run_loaded(code, values); };
  }
  if (kernel != &penstock::testing::fake_kernel_address) {
    return [] {};
  }
  return
      [copied = *static_cast<const fake_kernel*>(arguments[0])] { (void)copied.what->run(nullptr, copied.arguments); };
}

cudaError_t allocate(void** memory, std::size_t bytes) {
  if (captures != 0) {
    return cudaErrorStreamCaptureUnsupported;
  }
  constexpr std::size_t alignment = 256;
  *memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

// By the record's number, so that a later record of the event does not hold up who waits for this one.
void record(cudaEvent_t event, cudaStream_t on) {
  if (on != cudaStreamPerThread && on->captured != nullptr) {
    return;
  }
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex);
    number = ++event->recorded;
  }
  enqueue(on, [event, number] {
    const std::lock_guard lock(mutex);
    event->reached = number;
    event->at = std::chrono::steady_clock::now();
    changed.notify_all();
  });
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case refusal:
      return "cudaErrorMemoryAllocation";
    case failure:
      return "cudaErrorIllegalAddress";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    default:
      return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == refusal ? "out of memory" : "an illegal memory access was encountered";
}
cudaError_t cudaGetLastError() {
  const cudaError_t last = failed_for_good ? failure : last_error;
  last_error = cudaSuccess;
  return last;
}
cudaError_t cudaPeekAtLastError() {
  return failed_for_good ? failure : last_error;
}

cudaError_t cudaDriverGetVersion(int* version) {
  return call(__func__, [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceCount(int* count) {
  return call(__func__, [&] {
    *count = 1;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int /*device*/) {
  return call(__func__, [] { return cudaSuccess; });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  return call(__func__, [&] {
    *properties = {};
    std::strncpy(properties->name, "fake device", sizeof properties->name - 1);
    properties->totalGlobalMem = std::size_t{8} << 30U;
    properties->major = 9;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* /*text*/, int /*size*/, int /*device*/) {
  return call(__func__, [] { return cudaErrorInvalidDevice; });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return call(__func__, [&] {
    *lowest = 0;
    *highest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return call(__func__, [&] { return allocate(memory, bytes); });
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  return call(__func__, [&] { return allocate(memory, bytes); });
}
cudaError_t cudaFree(void* memory) {
  return call(__func__, [&] {
    std::free(memory);
    return cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* memory) {
  return call(__func__, [&] {
    std::free(memory);
    return cudaSuccess;
  });
}
cudaError_t cudaHostRegister(void* /*memory*/, std::size_t /*bytes*/, unsigned /*flags*/) {
  return call(__func__, [] { return cudaSuccess; });
}
cudaError_t cudaHostUnregister(void* /*memory*/) {
  return call(__func__, [] { return cudaSuccess; });
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t on) {
  return call(__func__, [&] {
    enqueue(on, [=] { std::memset(memory, value, bytes); });
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*way*/, cudaStream_t on) {
  return call(__func__, [&] {
    enqueue(on, [=] { std::memcpy(to, from, bytes); });
    return cudaSuccess;
  });
}
#if CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const std::size_t* bytes, std::size_t count,
                                 cudaMemcpyAttributes* /*attributes*/, std::size_t* /*places*/, std::size_t /*number*/,
                                 cudaStream_t on) {
  return call(__func__, [&] {
    for (std::size_t at = 0; at < count; ++at) {
      enqueue(on, [target = to[at], source = from[at], size = bytes[at]] { std::memcpy(target, source, size); });
    }
    return cudaSuccess;
  });
}
#endif

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned /*flags*/, int /*priority*/) {
  return call(__func__, [&] {
    *made = new CUstream_st;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  return cudaStreamCreateWithPriority(made, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t which) {
  return call(__func__, [&] {
    delete which;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t on) {
  return call(__func__, [&] {
    if (captures != 0) {
      return cudaErrorStreamCaptureUnsupported;
    }
    if (on != nullptr && on != cudaStreamPerThread) {  // what these two get is done at once
      on->drain();
    }
    return failed_for_good ? failure : cudaSuccess;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t event, unsigned /*flags*/) {
  return call(__func__, [&] {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex);
      number = event->recorded;
    }
    on->put({nullptr, nullptr, [event, number] { return event->reached >= number; }});
    return cudaSuccess;
  });
}
cudaError_t cudaStreamBeginCapture(cudaStream_t on, cudaStreamCaptureMode /*mode*/) {
  return call(__func__, [&] {
    on->captured = new CUgraph_st;
    ++captures;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t on, cudaGraph_t* made) {
  return call(__func__, [&] {
    *made = std::exchange(on->captured, nullptr);
    --captures;
    return cudaSuccess;
  });
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t on, cudaStreamCaptureStatus* status, unsigned long long* /*number*/,
                                     cudaGraph_t* /*into*/, const cudaGraphNode_t** last,
                                     const cudaGraphEdgeData** /*edges*/, std::size_t* count) {
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t on, cudaStreamCaptureStatus* status,
                                        unsigned long long* /*number*/, cudaGraph_t* /*into*/,
                                        const cudaGraphNode_t** last, std::size_t* count) {
#endif
  return call(__func__, [&] {
    *status = on->captured == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
    *count = on->captured == nullptr || on->captured->nodes.empty() ? 0 : 1;
    *last = *count == 0 ? nullptr : &on->captured->nodes.back();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamAddCallback(cudaStream_t on, cudaStreamCallback_t callback, void* user, unsigned /*flags*/) {
  return call(__func__, [&] {
    on->put({nullptr, [=](cudaError_t status) { callback(on, status, user); }, nullptr});
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned /*flags*/) {
  return call(__func__, [&] {
    *made = new CUevent_st;
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t which) {
  return call(__func__, [&] {
    delete which;
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t on) {
  return call(__func__, [&] {
    record(event, on);
    return cudaSuccess;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call(__func__, [&] {
    const std::lock_guard lock(mutex);
    return event->reached >= event->recorded ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call(__func__, [&] {
    const std::lock_guard lock(mutex);
    *milliseconds = std::chrono::duration<float, std::milli>(end->at - start->at).count();
    return start->reached >= start->recorded && end->reached >= end->recorded ? cudaSuccess : cudaErrorNotReady;
  });
}

// What libraries of packages may call besides.
cudaError_t cudaEventCreate(cudaEvent_t* made) {
  return cudaEventCreateWithFlags(made, cudaEventDefault);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call(__func__, [&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return event->reached >= event->recorded || failed_for_good; });
    return failed_for_good ? failure : cudaSuccess;
  });
}
cudaError_t cudaStreamCreate(cudaStream_t* made) {
  return cudaStreamCreateWithPriority(made, cudaStreamDefault, 0);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t on, cudaStreamCaptureStatus* status) {
  return call(__func__, [&] {
    *status = on->captured == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamQuery(cudaStream_t /*on*/) {
  return call(__func__, [] { return cudaErrorNotReady; });
}
cudaError_t cudaDeviceSynchronize() {
  return call(__func__, [] { return cudaErrorNotSupported; });
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return call(__func__, [&] {
    std::memset(memory, value, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* /*attributes*/, const void* /*memory*/) {
  return call(__func__, [] { return cudaErrorNotSupported; });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return cudaDriverGetVersion(version);
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 /*grid*/, dim3 /*block*/, void** arguments, std::size_t /*bytes*/,
                             cudaStream_t on) {
  return call(__func__, [&] {
    enqueue(on, work_of(kernel, arguments));
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* launch, const void* kernel, void** arguments) {
  return call(__func__, [&] {
    enqueue(launch->stream, work_of(kernel, arguments));
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call(__func__, [&] {
    *device = 0;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int /*device*/) {
  return call(__func__, [&] {
    switch (what) {
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 232448;
        break;
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
      default:
        *value = 4;
    }
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*way*/) {
  return call(__func__, [&] {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryLoadData(cudaLibrary_t* made, const void* code, cudaJitOption* /*jit*/, void** /*values*/,
                                unsigned /*count*/, cudaLibraryOption* /*options*/, void** /*others*/,
                                unsigned /*number*/) {
  return call(__func__, [&] {
    std::optional<loaded_library> loaded = penstock::testing::load_library(code);
    if (!loaded) {
      return cudaErrorNoKernelImageForDevice;
    }
    auto owned = std::make_unique<loaded_library>(std::move(*loaded));
    *made = reinterpret_cast<cudaLibrary_t>(owned.get());
    const std::lock_guard lock(mutex);
    libraries().emplace(*made, std::move(owned));
    shared_control().libraries = libraries().size();
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* made, cudaLibrary_t library, const char* name) {
  return call(__func__, [&] {
    const std::lock_guard lock(mutex);
    const auto found = libraries().at(library)->kernels.find(name);
    if (found == libraries().at(library)->kernels.end()) {
      return cudaErrorSymbolNotFound;
    }
    *made = reinterpret_cast<cudaKernel_t>(&found->second);
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return call(__func__, [&] {
    const std::lock_guard lock(mutex);
    libraries().erase(library);
    shared_control().libraries = libraries().size();
    return cudaSuccess;
  });
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  return call(__func__, [&] {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    return cudaSuccess;
  });
}
cudaError_t cudaFuncSetAttribute(const void* /*kernel*/, cudaFuncAttribute /*what*/, int /*value*/) {
  return call(__func__, [] { return cudaSuccess; });
}

cudaError_t cudaGraphCreate(cudaGraph_t* made, unsigned /*flags*/) {
  return call(__func__, [&] {
    *made = new CUgraph_st;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t which) {
  return call(__func__, [&] {
    for (const CUgraphNode_st* const each : which->nodes) {
      delete each;
    }
    delete which;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* made, cudaGraph_t to, const cudaGraphNode_t* /*behind*/,
                                   std::size_t /*count*/, const cudaKernelNodeParams* what) {
  return call(__func__, [&] {
    *made = to->add(work_of(what->func, what->kernelParams));
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t of, unsigned long long /*flags*/) {
  return call(__func__, [&] {
    *made = new CUgraphExec_st{of};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t which) {
  return call(__func__, [&] {
    delete which;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t /*of*/, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* what) {
  return call(__func__, [&] {
    node->run = work_of(what->func, what->kernelParams);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t what, cudaStream_t on) {
  return call(__func__, [&] {
    for (const CUgraphNode_st* const each : what->graph->nodes) {
      enqueue(on, each->run);
    }
    return cudaSuccess;
  });
}

}  // extern "C"
