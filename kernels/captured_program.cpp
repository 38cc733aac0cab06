#include "kernels/captured_program.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/launch.cuh"

namespace penstock {
namespace {

constexpr std::size_t memory_alignment = 256;
// A thread of the kernels copies 16 bytes at a time; a block in x a few of them for each of its threads.
constexpr std::size_t copy_bytes = 16;
constexpr std::size_t copies_of_thread = 4;
constexpr std::size_t most_blocks_of_row = 32;

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

/// What the runtime keeps as the thread's last error is reported here.
fault taken(cudaError_t status) noexcept {
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
  return cuda_fault(status);
}

[[noreturn]] void refuse(const std::string& what, fault why) {
  static_cast<void>(cudaGetLastError());
  throw std::runtime_error("could not " + what + ": " + text_of(why));
}

void require(fault met, const std::string& what) {
  if (met) {
    refuse(what, met);
  }
}

std::string frames_text(std::int64_t frames) {
  return frames == 1 ? "one frame" : std::to_string(frames) + " frames";
}

class timing_event {
 public:
  timing_event() { require(cuda_fault(cudaEventCreateWithFlags(&event_, cudaEventDefault)), "make a CUDA event"); }
  timing_event(const timing_event&) = delete;
  timing_event& operator=(const timing_event&) = delete;
  ~timing_event() { static_cast<void>(cudaEventDestroy(event_)); }

  [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The node that the stream has captured last.
cudaError_t last_node(cudaStream_t stream, cudaGraphNode_t& node) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  const cudaError_t met = cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, nullptr, &count);
#else
  const cudaError_t met = cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, &nodes, &count);
#endif
  if (met != cudaSuccess) {
    return met;
  }
  if (status != cudaStreamCaptureStatusActive || count != 1) {
    return cudaErrorStreamCaptureInvalidated;
  }
  node = nodes[0];
  return cudaSuccess;
}

std::vector<captured_step> sorted(std::vector<captured_step> steps) {
  std::sort(steps.begin(), steps.end(),
            [](const captured_step& one, const captured_step& other) { return one.frames < other.frames; });
  return steps;
}

}  // namespace

/// Rows of a launch: frames `first` … of the batch, or those that the list names.
struct captured_program::frame_range {
  std::int32_t first = 0;
  std::int32_t count = 0;
  const captured_frame_list* list = nullptr;
};

/// One step over one set of memory.
struct captured_program::graph {
  graph() = default;
  graph(graph&& other) noexcept
      : captured(std::exchange(other.captured, nullptr)),
        executable(std::exchange(other.executable, nullptr)),
        first(other.first),
        last(other.last),
        gather(other.gather),
        scatter(other.scatter),
        grid(other.grid),
        block(other.block) {}
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;
  graph& operator=(graph&&) = delete;
  ~graph() {
    if (executable != nullptr) {
      static_cast<void>(cudaGraphExecDestroy(executable));
    }
    if (captured != nullptr) {
      static_cast<void>(cudaGraphDestroy(captured));
    }
  }

  cudaGraph_t captured = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaGraphNode_t first = nullptr;
  cudaGraphNode_t last = nullptr;
  captured_rows gather;
  captured_rows scatter;
  dim3 grid;
  dim3 block;
};

/// Memory for the largest step, and the graphs that work on it. One launch at a time uses it: those of one stream
/// anyway, and between streams by `done`.
struct captured_program::memory_set {
  memory_set(const wave_layout& layout, const std::vector<captured_step>& steps) {
    std::size_t bytes = 0;
    const auto place = [&bytes](std::size_t count) { return std::exchange(bytes, bytes + aligned(count)); };
    const auto frames = static_cast<std::size_t>(steps.back().frames);
    std::size_t scratch_bytes = 0;
    for (const captured_step& each : steps) {
      scratch_bytes = std::max(scratch_bytes, each.scratch_bytes);
    }
    std::vector<std::size_t> at;
    for (const std::size_t each : layout.inputs) {
      at.push_back(place(frames * each));
    }
    if (layout.state_bytes != 0) {
      at.push_back(place(frames * layout.state_bytes));
    }
    const std::size_t first_output = at.size();
    for (const std::size_t each : layout.outputs) {
      at.push_back(place(frames * each));
    }
    if (layout.state_bytes != 0) {
      at.push_back(place(frames * layout.state_bytes));
    }
    const std::size_t scratch_at = place(scratch_bytes);
    size = std::max(bytes, memory_alignment);
    require(cuda_fault(cudaMalloc(reinterpret_cast<void**>(&memory), size)),
            "allocate " + std::to_string(size) + " bytes for a captured program");
    for (std::size_t each = 0; each < at.size(); ++each) {
      (each < first_output ? inputs : outputs).push_back(memory + at[each]);
    }
    scratch = memory + scratch_at;
    if (const fault met = cuda_fault(cudaEventCreateWithFlags(&done, cudaEventDisableTiming))) {
      static_cast<void>(cudaFree(memory));
      refuse("make a CUDA event", met);
    }
  }
  memory_set(memory_set&& other) noexcept
      : memory(std::exchange(other.memory, nullptr)),
        size(other.size),
        inputs(std::move(other.inputs)),
        outputs(std::move(other.outputs)),
        scratch(other.scratch),
        done(std::exchange(other.done, nullptr)),
        graphs(std::move(other.graphs)),
        user(other.user),
        used(other.used) {}
  memory_set(const memory_set&) = delete;
  memory_set& operator=(const memory_set&) = delete;
  memory_set& operator=(memory_set&&) = delete;
  ~memory_set() {
    graphs.clear();
    if (done != nullptr) {
      static_cast<void>(cudaEventDestroy(done));
    }
    if (memory != nullptr) {
      static_cast<void>(cudaFree(memory));
    }
  }

  std::byte* memory = nullptr;
  std::size_t size = 0;
  std::vector<void*> inputs;
  std::vector<void*> outputs;
  std::byte* scratch = nullptr;
  cudaEvent_t done = nullptr;
  std::vector<graph> graphs;  // one a step
  cudaStream_t user = nullptr;
  std::uint64_t used = 0;  // its last run; 0: never
};

captured_program::captured_program(wave_layout layout, std::vector<captured_step> steps, std::size_t sets)
    : layout_(std::move(layout)), steps_(sorted(std::move(steps))), kernels_(captured_row_kernels()) {
  if (std::max(layout_.inputs.size(), layout_.outputs.size()) > max_captured_operands || steps_.empty() ||
      steps_.back().frames > max_grid_rows) {
    throw std::runtime_error("a captured program has at most " + std::to_string(max_captured_operands) +
                             " inputs and outputs and " + std::to_string(max_grid_rows) + " frames");
  }
  if (layout_.state_bytes != 0) {
    const auto frames = static_cast<std::size_t>(layout_.max_frames);
    order_.resize(frames);
    wave_of_.resize(frames);
    wave_ends_.resize(frames + 1);
  }
  // A kernel that is loaded at its first launch takes the lock of the context.
  for (const void* const each : {kernels_.gather, kernels_.scatter, kernels_.gather_listed, kernels_.scatter_listed}) {
    cudaFuncAttributes attributes{};
    require(cuda_fault(cudaFuncGetAttributes(&attributes, each)), "load a kernel");
  }
  const private_stream stream;
  sets_.reserve(most_sets);
  sets_.emplace_back(layout_, steps_);
  const std::size_t affordable = std::max<std::size_t>(memory_limit / sets_.front().size, 2);
  for (const std::size_t wanted = std::clamp<std::size_t>(sets, 1, std::min(affordable, most_sets));
       sets_.size() < wanted;) {
    sets_.emplace_back(layout_, steps_);
  }
  for (memory_set& each : sets_) {
    require(cuda_fault(cudaMemsetAsync(each.memory, 0, each.size, stream.get())), "clear device memory");
  }
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    memory_set& first = sets_.front();
    std::vector<void*> outputs = first.outputs;
    const std::string what = "run a program of " + frames_text(steps_[step].frames);
    require(steps_[step].enqueue(stream.get(), {first.inputs, outputs, first.scratch}), what);
    require(cuda_fault(cudaStreamSynchronize(stream.get())), what);
  }
  for (memory_set& each : sets_) {
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      capture(stream.get(), each, step);
    }
  }
  plan_cuts(stream.get());
}

captured_program::~captured_program() = default;

std::size_t captured_program::own_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const memory_set& each : sets_) {
    bytes += each.size;
  }
  return bytes;
}

void captured_program::capture(cudaStream_t stream, memory_set& set, std::size_t step) {
  const captured_step& made = steps_[step];
  graph& into = set.graphs.emplace_back();
  const bool keeps_state = layout_.state_bytes != 0;
  std::size_t widest = layout_.state_bytes;
  for (const std::vector<std::size_t>* list : {&layout_.inputs, &layout_.outputs}) {
    for (const std::size_t each : *list) {
      widest = std::max(widest, each);
    }
  }
  const std::size_t copies = std::max<std::size_t>(widest / copy_bytes, 1);
  into.block = dim3(static_cast<unsigned>(threads_for(static_cast<std::int64_t>(copies))));
  into.grid = dim3(
      static_cast<unsigned>(std::clamp<std::size_t>(copies / (into.block.x * copies_of_thread), 1, most_blocks_of_row)),
      static_cast<unsigned>(made.frames));
  into.gather.rows = static_cast<std::int32_t>(made.frames);
  into.gather.operands = static_cast<std::int32_t>(layout_.inputs.size());
  for (std::size_t each = 0; each < layout_.inputs.size(); ++each) {
    into.gather.operand[each] = {nullptr, static_cast<std::byte*>(set.inputs[each]),
                                 static_cast<std::int64_t>(layout_.inputs[each])};
  }
  into.gather.state = keeps_state ? static_cast<std::byte*>(set.inputs.back()) : nullptr;
  into.gather.state_bytes = static_cast<std::int64_t>(layout_.state_bytes);

  // Work without frames: rows become zero, and nothing is written back.
  const std::string what = "capture a program of " + frames_text(made.frames);
  void* arguments[] = {&into.gather};
  std::vector<void*> outputs = set.outputs;
  require(cuda_fault(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)), what);
  fault met = cuda_fault(cudaLaunchKernel(kernels_.gather, into.grid, into.block, arguments, 0, stream));
  met = met ? met : cuda_fault(last_node(stream, into.first));
  met = met ? met : made.enqueue(stream, {set.inputs, outputs, set.scratch});
  if (!met) {
    into.scatter = into.gather;
    into.scatter.operands = static_cast<std::int32_t>(layout_.outputs.size());
    for (std::size_t each = 0; each < layout_.outputs.size(); ++each) {
      into.scatter.operand[each] = {nullptr, static_cast<std::byte*>(outputs[each]),
                                    static_cast<std::int64_t>(layout_.outputs[each])};
    }
    into.scatter.state = keeps_state ? static_cast<std::byte*>(outputs.back()) : nullptr;
    arguments[0] = &into.scatter;
    met = cuda_fault(cudaLaunchKernel(kernels_.scatter, into.grid, into.block, arguments, 0, stream));
    met = met ? met : cuda_fault(last_node(stream, into.last));
  }
  const fault ended = cuda_fault(cudaStreamEndCapture(stream, &into.captured));
  require(met ? met : ended, what);
  require(cuda_fault(cudaGraphInstantiate(&into.executable, into.captured, 0)), what);
  require(cuda_fault(cudaGraphLaunch(into.executable, stream)), what);
  require(cuda_fault(cudaStreamSynchronize(stream)), what);
}

double captured_program::measure(cudaStream_t stream, const graph& which) const {
  constexpr int launches = 8;
  const timing_event begin;
  const timing_event end;
  const std::string what = "measure a captured program";
  require(cuda_fault(cudaEventRecord(begin.get(), stream)), what);
  for (int launch = 0; launch < launches; ++launch) {
    require(cuda_fault(cudaGraphLaunch(which.executable, stream)), what);
  }
  require(cuda_fault(cudaEventRecord(end.get(), stream)), what);
  require(cuda_fault(cudaStreamSynchronize(stream)), what);
  float milliseconds = 0;
  require(cuda_fault(cudaEventElapsedTime(&milliseconds, begin.get(), end.get())), what);
  return 1000.0 * static_cast<double>(milliseconds) / launches;
}

/// The least time for n frames: that of a run of any bucket, and the least for the rest.
void captured_program::plan_cuts(cudaStream_t stream) {
  constexpr double of_launch = 2;  // of the thread, and between two on the device
  std::vector<double> costs;
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    const double given = steps_[step].microseconds;
    costs.push_back(of_launch + (given > 0 ? given : measure(stream, sets_.front().graphs[step])));
  }
  std::vector<double> least(static_cast<std::size_t>(layout_.max_frames) + 1, 0);
  step_for_.resize(least.size());
  for (std::size_t frames = 1; frames < least.size(); ++frames) {
    std::size_t most = 0;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      const std::size_t taken_now = std::min(frames, static_cast<std::size_t>(steps_[step].frames));
      const double cost = costs[step] + least[frames - taken_now];
      // Of equal ones that with the most frames, and of these the one with the fewest rows.
      if (step == 0 || cost < least[frames] || (cost <= least[frames] && taken_now > most)) {
        least[frames] = cost;
        most = taken_now;
        step_for_[frames] = static_cast<std::uint32_t>(step);
      }
    }
  }
}

fault captured_program::run(void* stream, const operation_arguments& arguments) noexcept {
  if (arguments.extent.frames == 0) {
    return {};
  }
  return kernel_queue::of(stream).enqueue([&](cudaStream_t on) { return run_on(on, arguments); });
}

fault captured_program::run_on(cudaStream_t stream, const operation_arguments& arguments) noexcept {
  const auto frames = static_cast<std::int32_t>(arguments.extent.frames);
  const std::size_t waves =
      layout_.state_bytes == 0 ? 1 : sort_waves({arguments.host_frames, static_cast<std::size_t>(frames)});
  memory_set& set = set_of(stream);
  if (set.user != stream && set.used != 0) {
    if (const fault met = taken(cudaStreamWaitEvent(stream, set.done, 0))) {
      return met;
    }
  }
  set.user = stream;
  set.used = ++runs_;
  fault met;
  if (waves == 1) {
    met = run_wave(stream, set, arguments, 0, frames, false);
  }
  std::int32_t first = 0;
  for (std::size_t wave = 0; wave < waves && waves != 1 && !met; ++wave) {
    met = run_wave(stream, set, arguments, first, wave_ends_[wave] - first, true);
    first = wave_ends_[wave];
  }
  // Also after a fault: something may be enqueued.
  const fault recorded = taken(cudaEventRecord(set.done, stream));
  return met ? met : recorded;
}

fault captured_program::run_wave(cudaStream_t stream, memory_set& set, const operation_arguments& arguments,
                                 std::int32_t first, std::int32_t count, bool listed) noexcept {
  captured_frame_list list;
  while (count != 0) {
    const std::int32_t most = listed ? std::min(count, max_listed_frames) : count;
    const std::size_t step = step_for_[static_cast<std::size_t>(most)];
    const std::int32_t taken_now = std::min(most, static_cast<std::int32_t>(steps_[step].frames));
    if (listed) {
      std::copy_n(order_.begin() + first, taken_now, list.frame);
    }
    if (const fault met = launch(stream, set.graphs[step], arguments, {first, taken_now, listed ? &list : nullptr})) {
      return met;
    }
    first += taken_now;
    count -= taken_now;
  }
  return {};
}

fault captured_program::launch(cudaStream_t stream, graph& which, const operation_arguments& arguments,
                               const frame_range& range) noexcept {
  for (captured_rows* each : {&which.gather, &which.scatter}) {
    each->frames = range.count;
    each->first = range.first;
    each->session = arguments.session;
  }
  for (std::size_t input = 0; input < layout_.inputs.size(); ++input) {
    // It is only read.
    which.gather.operand[input].batch = static_cast<std::byte*>(const_cast<void*>(arguments.inputs[input]));
  }
  for (std::size_t output = 0; output < layout_.outputs.size(); ++output) {
    which.scatter.operand[output].batch =
        static_cast<std::byte*>(output == 0 ? arguments.output : arguments.outputs[output]);
  }
  const bool listed = range.list != nullptr;
  std::array<void*, 2> places{&which.gather, const_cast<captured_frame_list*>(range.list)};
  cudaKernelNodeParams call{};
  call.gridDim = which.grid;
  call.blockDim = which.block;
  call.kernelParams = places.data();
  call.func = const_cast<void*>(listed ? kernels_.gather_listed : kernels_.gather);
  if (const fault met = taken(cudaGraphExecKernelNodeSetParams(which.executable, which.first, &call))) {
    return met;
  }
  places[0] = &which.scatter;
  call.func = const_cast<void*>(listed ? kernels_.scatter_listed : kernels_.scatter);
  if (const fault met = taken(cudaGraphExecKernelNodeSetParams(which.executable, which.last, &call))) {
    return met;
  }
  return taken(cudaGraphLaunch(which.executable, stream));
}

captured_program::memory_set& captured_program::set_of(cudaStream_t stream) noexcept {
  memory_set* oldest = &sets_.front();
  for (memory_set& each : sets_) {
    if (each.user == stream && each.used != 0) {
      return each;
    }
    if (each.used < oldest->used) {
      oldest = &each;
    }
  }
  return *oldest;
}

/// Returns the number of waves. Of a batch that is one wave, in the order of its frames, nothing is kept.
std::size_t captured_program::sort_waves(std::span<const session_frame> frames) noexcept {
  if (std::all_of(frames.begin(), frames.end(), [](const session_frame& each) { return each.previous < 0; })) {
    return 1;
  }
  std::fill_n(wave_ends_.begin(), frames.size() + 1, 0);
  std::size_t waves = 0;
  for (std::size_t first = 0; first < frames.size(); ++first) {
    if (frames[first].previous >= 0) {
      continue;
    }
    std::int32_t wave = 0;
    for (auto frame = static_cast<std::int32_t>(first); frame >= 0;
         frame = frames[static_cast<std::size_t>(frame)].next) {
      wave_of_[static_cast<std::size_t>(frame)] = wave;
      ++wave_ends_[static_cast<std::size_t>(wave++)];
    }
    waves = std::max(waves, static_cast<std::size_t>(wave));
  }
  std::int32_t before = 0;
  for (std::size_t wave = 0; wave < waves; ++wave) {
    before += std::exchange(wave_ends_[wave], before);
  }
  for (std::size_t frame = 0; frame < frames.size(); ++frame) {
    order_[static_cast<std::size_t>(wave_ends_[static_cast<std::size_t>(wave_of_[frame])]++)] =
        static_cast<std::int32_t>(frame);
  }
  return waves;
}

}  // namespace penstock
