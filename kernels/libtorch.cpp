#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

#include "kernels/model.hpp"

namespace penstock {
namespace {

constexpr const char* installation_hint =
    "install PyTorch (pip install torch, or Debian's package libtorch2.0 or newer) and set PENSTOCK_LIBTORCH to the "
    "folder of its libraries, torch/lib";

class libtorch final : public torch_provider {
 public:
  /// `driver`: CUDA's, which packages for a GPU call too; nullptr for others.
  libtorch(void* library, void* driver, std::string version)
      : library_(library), driver_(driver), version_(std::move(version)) {}

  [[nodiscard]] const void* find(const std::string& name) const noexcept override {
    // What was not compiled runs in an interpreter, which the daemon does not bring.
    if (name == proxy_executor_function) {
      return nullptr;
    }
    const void* const found = ::dlsym(library_, name.c_str());
    return found != nullptr || driver_ == nullptr ? found : ::dlsym(driver_, name.c_str());
  }
  [[nodiscard]] bool is_own() const noexcept override { return false; }
  [[nodiscard]] std::string version() const override { return version_; }

 private:
  void* library_;
  void* driver_;
  std::string version_;
};

// Kept loaded for good: it has threads and what runs at the process's end.
void* open(const std::filesystem::path& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    throw std::runtime_error(std::string("it needs PyTorch, which could not be loaded (") +
                             (reason == nullptr ? "unknown" : reason) + "): " + installation_hint);
  }
  return library;
}

/// Its version, as major.minor: in the upper bytes of a number.
std::string version_of(void* library) {
  const auto version = reinterpret_cast<std::uint64_t (*)()>(::dlsym(library, "aoti_torch_abi_version"));
  if (version == nullptr) {
    return "";
  }
  const std::uint64_t number = version();
  return std::to_string(number >> 56U) + "." + std::to_string(number >> 48U & 0xffU);
}

}  // namespace

std::shared_ptr<const torch_provider> load_libtorch(bool with_cuda) {
  const char* const chosen = std::getenv("PENSTOCK_LIBTORCH");
  const std::filesystem::path folder = chosen == nullptr ? "" : chosen;
  // The one for CUDA needs the other, and finds its functions and those of CUDA's runtime.
  void* const library = open(folder / (with_cuda ? "libtorch_cuda.so" : "libtorch_cpu.so"));
  // at::set_num_threads: the daemon's workers are the parallelism.
  if (const auto set_threads = reinterpret_cast<void (*)(int)>(::dlsym(library, "_ZN2at15set_num_threadsEi"))) {
    set_threads(1);
  }
  // Products and convolutions of f32 are in f32, as they are with Penstock's own functions.
  const auto context = reinterpret_cast<void* (*)()>(::dlsym(library, "_ZN2at13globalContextEv"));
  for (const char* const setter : {"_ZN2at7Context17setAllowTF32CuDNNEb", "_ZN2at7Context18setAllowTF32CuBLASEb"}) {
    const auto allow = reinterpret_cast<void (*)(void*, bool)>(::dlsym(library, setter));
    if (context != nullptr && allow != nullptr) {
      allow(context(), false);
    }
  }
  void* const driver = with_cuda ? ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) : nullptr;
  return std::make_shared<libtorch>(library, driver, version_of(library));
}

}  // namespace penstock
