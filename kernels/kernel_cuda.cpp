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
    check_launches(settings_, limits_, request.max_frames);
  }

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes; }
  [[nodiscard]] bool single_pass() const noexcept override { return settings_.single_pass; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const kernel_extents extents(settings_.inputs.front(), arguments.extent);
    const kernel_launch launch = launch_of(settings_, extents.values());
    if (!fits(launch, settings_, limits_)) {
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
          if (const std::int64_t value = each.expression.value(extents.values()); each.holds(value)) {
            // Little-endian: the first bytes are the narrower number.
            put(values[at], value);
            break;
          }
          return {"cudaErrorInvalidValue"};
        case kernel_argument::source::number:
          put(values[at], each.number);
          break;
        case kernel_argument::source::numbers:
          put(values[at], arguments.numbers);
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
         .grid = dim3(unsigned_of(launch.grid[0]), unsigned_of(launch.grid[1]), unsigned_of(launch.grid[2])),
         .block = dim3(unsigned_of(launch.block[0]), unsigned_of(launch.block[1]), unsigned_of(launch.block[2])),
         .arguments = std::span(places).first(count),
         .sizes = std::span(sizes).first(count),
         .shared = unsigned_of(launch.shared),
         .cluster = dim3(unsigned_of(settings_.cluster[0]), unsigned_of(settings_.cluster[1]),
                         unsigned_of(settings_.cluster[2]))});
  }

 private:
  template <class Value, std::size_t Bytes>
  static void put(std::array<std::byte, Bytes>& to, const Value& value) noexcept {
    static_assert(sizeof value <= Bytes);
    std::memcpy(to.data(), &value, sizeof value);
  }

  static unsigned unsigned_of(std::int64_t value) noexcept { return static_cast<unsigned>(value); }

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
  kernel_limits limits_;
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
