#include "kernels/cublas_xt.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#if __has_include(<cublasXt.h>)
#include <cublasXt.h>
#endif

#include "kernels/cublas.hpp"

namespace penstock {
namespace {

constexpr int op_plain = 0;

#if __has_include(<cublasXt.h>)
static_assert(op_plain == CUBLAS_OP_N);
static_assert(sizeof(cublasxt_library::handle) == sizeof(cublasXtHandle_t));
static_assert(sizeof(cublasxt_library::result) == sizeof(cublasStatus_t));
#endif

constexpr const char* installation_hint =
    "install the CUDA toolkit's cuBLAS (package libcublas-13-0 or libcublas-12-x of the same major version as the "
    "driver's CUDA) or set PENSTOCK_CUBLAS to the path of libcublas.so.13 or libcublas.so.12";

std::vector<std::string> xt_candidates() {
  if (const char* chosen = std::getenv("PENSTOCK_CUBLAS"); chosen != nullptr && *chosen != '\0') {
    return {chosen};
  }
  std::vector<std::string> folders{""};
  if (const char* toolkit = std::getenv("CUDA_PATH"); toolkit != nullptr && *toolkit != '\0') {
    folders.push_back(std::string(toolkit) + "/lib64/");
    folders.push_back(std::string(toolkit) + "/targets/x86_64-linux/lib/");
  }
  folders.emplace_back("/usr/local/cuda/lib64/");
  folders.emplace_back("/usr/local/cuda/targets/x86_64-linux/lib/");
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}) {
      paths.push_back(folder + name);
    }
  }
  return paths;
}

// Kept loaded for good (RTLD_NODELETE), as cuFFT is.
void* open_xt_library(std::string& path) {
  std::string failure;
  for (const std::string& candidate : xt_candidates()) {
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); library != nullptr) {
      path = candidate;
      return library;
    }
    const char* reason = dlerror();
    if (failure.empty() && reason != nullptr) {
      failure = reason;
    }
  }
  throw std::runtime_error("engine = \"xt\" needs cuBLAS, which could not be loaded (" + failure +
                           "): " + installation_hint);
}

template <class Function>
void resolve_xt(void* library, const std::string& path, const char* symbol, Function& function) {
  void* address = dlsym(library, symbol);
  if (address == nullptr) {
    throw std::runtime_error(path + " has no " + symbol +
                             ", so it is not a cuBLAS that Penstock can use: " + installation_hint);
  }
  function = reinterpret_cast<Function>(address);
}

void check_xt(cublasxt_library::result result, const char* action) {
  if (const fault failed = cublas_fault(result)) {
    throw std::runtime_error(std::string("cuBLAS-Xt could not ") + action + ": " + failed.name);
  }
}

}  // namespace

std::shared_ptr<const cublasxt_library> cublasxt_library::load() {
  std::string path;
  void* library = open_xt_library(path);
  auto found = std::make_shared<cublasxt_library>();
  resolve_xt(library, path, "cublasXtCreate", found->create);
  resolve_xt(library, path, "cublasXtDestroy", found->destroy);
  resolve_xt(library, path, "cublasXtDeviceSelect", found->select_devices);
  resolve_xt(library, path, "cublasXtSgemm", found->sgemm);
  return found;
}

cublasxt_product::cublasxt_product(std::shared_ptr<const cublasxt_library> library) : library_(std::move(library)) {
  int device = 0;
  if (const cudaError_t failed = cudaGetDevice(&device); failed != cudaSuccess) {
    throw std::runtime_error(std::string("could not tell the current CUDA device: ") + cudaGetErrorName(failed));
  }
  check_xt(library_->create(&handle_), "be initialised");
  try {
    check_xt(library_->select_devices(handle_, 1, &device), "take the device");
  } catch (...) {
    library_->destroy(handle_);
    throw;
  }
}

cublasxt_product::~cublasxt_product() {
  library_->destroy(handle_);
}

// By columns the library computes the transpose of out from those of b, its A, and of a, its B.
fault cublasxt_product::run(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                            float* out) const noexcept {
  constexpr float one = 1;
  constexpr float zero = 0;
  const auto columns = static_cast<std::size_t>(n);
  const auto inner = static_cast<std::size_t>(k);
  return cublas_fault(library_->sgemm(handle_, op_plain, op_plain, columns, static_cast<std::size_t>(m), inner, &one, b,
                                      columns, a, inner, &zero, out, columns));
}

}  // namespace penstock
