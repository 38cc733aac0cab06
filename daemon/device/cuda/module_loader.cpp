#include "daemon/device/cuda/module_loader.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include <dlfcn.h>

#include "daemon/device/backend.hpp"
#include "penstock_install_places.hpp"
#include "penstock_version.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "penstock-cuda.so";
constexpr const char* environment_variable = "PENSTOCK_CUDA_MODULE";

std::string last_loader_error() {
  const char* const message = dlerror();
  return message != nullptr ? message : "unknown error";
}

[[noreturn]] void refuse_missing(const std::vector<fs::path>& places) {
  std::string text = std::string(file_name) + " was not found; looked at";
  for (const fs::path& each : places) {
    text += (&each == &places.front() ? " " : ", ") + each.string();
  }
  throw device_error(text + " (build Penstock where the CUDA toolkit is installed, or set " + environment_variable +
                     " to the module's path)");
}

fs::path find_module() {
  const std::vector<fs::path> places = cuda_module_places();
  for (const fs::path& each : places) {
    std::error_code unreadable;
    if (fs::exists(each, unreadable)) {
      return each;
    }
  }
  refuse_missing(places);
}

}  // namespace

std::vector<fs::path> cuda_module_places() {
  if (const char* const chosen = std::getenv(environment_variable); chosen != nullptr && *chosen != '\0') {
    std::error_code unknown;
    const fs::path absolute = fs::absolute(chosen, unknown);
    return {unknown ? fs::path(chosen) : absolute};
  }
  std::error_code failed;
  const fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  std::vector<fs::path> places;
  for (const char* const relative : {"", installed_module_folder, "../lib/penstock", "..", "../bin"}) {
    const fs::path place = (folder / relative / file_name).lexically_normal();
    if (std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(place);
    }
  }
  return places;
}

void require_matching_module(const cuda_module_table& module, const std::string& path) {
  if (module.abi == cuda_module_abi && std::string(module.version) == version) {
    return;
  }
  throw device_error(path + " is of Penstock " + module.version + " (module interface " + std::to_string(module.abi) +
                     "), this program is of " + version + " (" + std::to_string(cuda_module_abi) +
                     "): install both from the same build");
}

const cuda_module_table& load_cuda_module() {
  // Streams beyond the driver's connections share one and wait for each other: 8 unless this says more (at most 32).
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const std::string path = find_module().string();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw device_error("the CUDA module can't be loaded: " + last_loader_error());
  }
  const auto entry = reinterpret_cast<cuda_module_function>(dlsym(library, cuda_module_symbol));
  if (entry == nullptr) {
    throw device_error(path + " is not a CUDA module that this program knows: it has no " + cuda_module_symbol +
                       " (install both from the same build)");
  }
  const cuda_module_table& module = *entry();
  require_matching_module(module, path);
  return module;
}

std::unique_ptr<device> open_cuda_device(int id) {
  return load_cuda_module().open(id);
}

int count_cuda_devices() {
  return load_cuda_module().count();
}

stream_priority_range cuda_priorities(int id) {
  return load_cuda_module().priorities(id);
}

}  // namespace penstock
