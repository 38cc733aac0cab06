#include "kernels/plugin.hpp"

#include <algorithm>
#include <numeric>

#include <cuda_runtime_api.h>

#include "kernels/kernel_queue.hpp"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

/// What a plug-in knows as ps_run::queue: the stream's queue during one run.
class plugin_queue {
 public:
  explicit plugin_queue(kernel_queue& queue) noexcept : queue_(queue) {}

  [[nodiscard]] fault met() const noexcept { return met_; }

  static std::int32_t add(void* queue, const void* kernel, const std::uint32_t grid[3], const std::uint32_t block[3],
                          std::uint32_t shared, void* const* args, const std::size_t* sizes,
                          std::uint32_t count) noexcept {
    auto& self = *static_cast<plugin_queue*>(queue);
    if (count > max_kernel_arguments || std::accumulate(sizes, sizes + count, std::size_t{0}) > max_argument_bytes) {
      return self.keep({"PLUGIN_KERNEL_ARGUMENTS"});
    }
    return self.keep(self.queue_.add({.kernel = kernel,
                                      .grid = dim3(grid[0], grid[1], grid[2]),
                                      .block = dim3(block[0], block[1], block[2]),
                                      .arguments = std::span(args, count),
                                      .sizes = std::span(sizes, count),
                                      .shared = shared}));
  }
  static std::int32_t flush(void* queue) noexcept {
    auto& self = *static_cast<plugin_queue*>(queue);
    return self.keep(self.queue_.enqueue([](cudaStream_t /*stream*/) { return fault{}; }));
  }

 private:
  std::int32_t keep(fault met) noexcept {
    if (met) {
      met_ = met;
    }
    return met ? 1 : 0;
  }

  kernel_queue& queue_;
  fault met_;
};

class plugin_cuda final : public plugin_operation {
 public:
  plugin_cuda(const operation_request& request, int device)
      : plugin_operation(plugin_operator(request.settings, "file"), request, device), device_(device) {}
  // What the plug-in frees is the device's.
  ~plugin_cuda() override { static_cast<void>(cudaSetDevice(device_)); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    kernel_queue& kernels = kernel_queue::of(stream);
    plugin_queue queue(kernels);
    ps_run run = run_over(arguments);
    run.queue = &queue;
    run.add = plugin_queue::add;
    run.flush = plugin_queue::flush;
    const auto finish = [&] {
      const fault met = call(run);
      return queue.met() ? queue.met() : met;
    };
    if ((flags() & PS_QUEUES) != 0) {
      return finish();
    }
    return kernels.enqueue([&](cudaStream_t behind_all) {
      run.stream = behind_all;
      return finish();
    });
  }

 private:
  const int device_;
};

}  // namespace

std::unique_ptr<operation> make_plugin_cuda(const operation_request& request) {
  int device = 0;
  require_cuda(cudaGetDevice(&device), "tell the current CUDA device");
  auto made = std::make_unique<plugin_cuda>(request, device);
  if (!made->in_waves()) {
    return made;
  }
  wave_layout layout = made->layout(request);
  return make_waves_cuda(std::move(made), std::move(layout));
}

}  // namespace penstock
