#include "kernels/kernel.hpp"

#include <utility>

#include "kernels/kernel_queue.hpp"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

/// Owns a library of machine code in the current context.
class loaded_code {
 public:
  /// Throws parameter_error.
  loaded_code(const code_file& code, const std::string& symbol) {
    cudaError_t met = cudaLibraryLoadData(&library_, code.text.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (met == cudaSuccess) {
      met = cudaLibraryGetKernel(&kernel_, library_, symbol.c_str());
    }
    if (met != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      unload();
      throw parameter_error("file", code.path + ": its machine code can't be loaded: " + cudaGetErrorName(met));
    }
  }
  loaded_code(const loaded_code&) = delete;
  loaded_code& operator=(const loaded_code&) = delete;
  ~loaded_code() { unload(); }

  [[nodiscard]] cudaKernel_t kernel() const noexcept { return kernel_; }

 private:
  void unload() noexcept {
    if (library_ != nullptr) {
      static_cast<void>(cudaLibraryUnload(std::exchange(library_, nullptr)));
    }
  }

  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

/// What the device and the kernel allow.
struct launch_limits {
  std::int64_t threads = 1024;
  std::int64_t shared = 0;
};

constexpr std::int64_t max_grid_x = (std::int64_t{1} << 31) - 1;

class kernel_cuda final : public operation {
 public:
  kernel_cuda(kernel_settings settings, const operation_request& request)
      : settings_(std::move(settings)), code_(request.settings.code("code"), request.settings.text("symbol")) {
    for (const kernel_argument& each : settings_.arguments) {
      if (each.from == kernel_argument::source::array) {
        arrays_.emplace_back(std::span<const std::byte>(each.array));
      }
    }
    set_limits();
    // Both ends of what a batch can be.
    check_launch({.frames = 1, .leading = 1});
    check_launch({.frames = request.max_frames, .leading = settings_.inputs.front().shape.front()});
  }

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes; }
  [[nodiscard]] bool single_pass() const noexcept override { return settings_.single_pass; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const kernel_extents extents(settings_.inputs.front(), arguments.extent);
    const launch_size size = size_of_launch(extents.values());
    if (!fits(size)) {
      return {"cudaErrorInvalidConfiguration"};
    }
    std::array<std::array<std::byte, sizeof(session_arguments)>, max_kernel_arguments> values;
    std::array<void*, max_kernel_arguments> places{};
    std::array<std::size_t, max_kernel_arguments> sizes{};
    std::size_t array = 0;
    for (std::size_t at = 0; at < settings_.arguments.size(); ++at) {
      const kernel_argument& each = settings_.arguments[at];
      places[at] = values[at].data();
      sizes[at] = each.bytes;
      switch (each.from) {
        case kernel_argument::source::input:
          put(values[at], arguments.inputs[each.index]);
          break;
        case kernel_argument::source::output:
          put(values[at], arguments.outputs[each.index]);
          break;
        case kernel_argument::source::session:
          std::memcpy(values[at].data(), reinterpret_cast<const std::byte*>(&arguments.session) + each.offset,
                      each.bytes);
          break;
        case kernel_argument::source::expression:
          // Little-endian: the first bytes are the narrower number.
          put(values[at], each.expression.value(extents.values()));
          break;
        case kernel_argument::source::number:
          put(values[at], each.number);
          break;
        case kernel_argument::source::null:
          put(values[at], static_cast<const void*>(nullptr));
          break;
        default:
          put(values[at], static_cast<const void*>(arrays_[array++].data()));
      }
    }
    const std::size_t count = settings_.arguments.size();
    return kernel_queue::of(stream).add(
        {.kernel = reinterpret_cast<const void*>(code_.kernel()),
         .grid = dim3(unsigned_of(size.grid[0]), unsigned_of(size.grid[1]), unsigned_of(size.grid[2])),
         .block = dim3(unsigned_of(size.block[0]), unsigned_of(size.block[1]), unsigned_of(size.block[2])),
         .arguments = std::span(places).first(count),
         .sizes = std::span(sizes).first(count),
         .shared = unsigned_of(size.shared),
         .cluster = dim3(unsigned_of(settings_.cluster[0]), unsigned_of(settings_.cluster[1]),
                         unsigned_of(settings_.cluster[2]))});
  }

 private:
  struct launch_size {
    std::array<std::int64_t, 3> grid{};
    std::array<std::int64_t, 3> block{};
    std::int64_t shared = 0;
  };

  template <class Value, std::size_t Bytes>
  static void put(std::array<std::byte, Bytes>& to, const Value& value) noexcept {
    static_assert(sizeof value <= Bytes);
    std::memcpy(to.data(), &value, sizeof value);
  }

  static unsigned unsigned_of(std::int64_t value) noexcept { return static_cast<unsigned>(value); }

  [[nodiscard]] launch_size size_of_launch(std::span<const std::int64_t> values) const noexcept {
    launch_size size;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      size.grid[axis] = settings_.grid[axis].value(values);
      size.block[axis] = settings_.block[axis].value(values);
    }
    size.shared = settings_.shared.value(values);
    return size;
  }

  [[nodiscard]] bool fits(const launch_size& size) const noexcept {
    const auto within = [](std::int64_t value, std::int64_t most) { return value >= 1 && value <= most; };
    return within(size.grid[0], max_grid_x) && within(size.grid[1], max_grid_rows) &&
           within(size.grid[2], max_grid_rows) && within(size.block[0], limits_.threads) &&
           within(size.block[1], limits_.threads) && within(size.block[2], 64) &&
           size.block[0] * size.block[1] * size.block[2] <= limits_.threads && size.shared >= 0 &&
           size.shared <= limits_.shared && whole_clusters(size);
  }

  [[nodiscard]] bool whole_clusters(const launch_size& size) const noexcept {
    return size.grid[0] % settings_.cluster[0] == 0 && size.grid[1] % settings_.cluster[1] == 0 &&
           size.grid[2] % settings_.cluster[2] == 0;
  }

  /// Throws parameter_error, which names what does not fit.
  void check_launch(const batch_extent& extent) const {
    const kernel_extents extents(settings_.inputs.front(), extent);
    const launch_size size = size_of_launch(extents.values());
    if (fits(size)) {
      return;
    }
    const auto text = [](const std::array<std::int64_t, 3>& three) {
      return std::to_string(three[0]) + " × " + std::to_string(three[1]) + " × " + std::to_string(three[2]);
    };
    const std::string batch = " in a batch of " + std::to_string(extent.frames) + " frames";
    if (size.shared < 0 || size.shared > limits_.shared) {
      throw parameter_error("shared", "is " + std::to_string(size.shared) + " bytes" + batch +
                                          "; this kernel can have " + std::to_string(limits_.shared));
    }
    const std::int64_t threads = size.block[0] * size.block[1] * size.block[2];
    const bool block_fits = threads >= 1 && threads <= limits_.threads && size.block[2] <= 64;
    if (!block_fits) {
      throw parameter_error("block", "is " + text(size.block) + " threads" + batch + "; this kernel can have " +
                                         std::to_string(limits_.threads));
    }
    if (!whole_clusters(size)) {
      throw parameter_error("grid", "is " + text(size.grid) + " blocks" + batch + ", not a multiple of the cluster");
    }
    throw parameter_error("grid", "is " + text(size.grid) + " blocks" + batch +
                                      "; allowed are 1 to 2147483647, and 1 to 65535 in the second and third place");
  }

  void set_limits() {
    const void* const kernel = reinterpret_cast<const void*>(code_.kernel());
    int device = 0;
    int shared = 0;
    require_cuda(cudaGetDevice(&device), "tell the current CUDA device");
    require_cuda(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                 "tell how much shared memory a block can have");
    cudaFuncAttributes attributes{};
    require_cuda(cudaFuncGetAttributes(&attributes, kernel), "tell what a kernel needs");
    limits_.threads = attributes.maxThreadsPerBlock;
    limits_.shared = shared - static_cast<std::int64_t>(attributes.sharedSizeBytes);
    require_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(limits_.shared)),
        "let a kernel have dynamic shared memory");
  }

  const kernel_settings settings_;
  const loaded_code code_;
  std::vector<device_array<std::byte>> arrays_;
  launch_limits limits_;
};

}  // namespace

std::unique_ptr<operation> make_kernel_cuda(const operation_request& request) {
  const kernel_settings settings = parse_kernel(request.settings, request.inputs);
  auto kernel = std::make_unique<kernel_cuda>(settings, request);
  return settings.waves ? make_waves_cuda(std::move(kernel), wave_layout_of(settings.inputs, settings.outputs,
                                                                            settings.state_bytes, request.max_frames))
                        : std::move(kernel);
}

}  // namespace penstock
