#include "kernels/cublas_xt.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#if __has_include(<cublasXt.h>)
#include <cublasXt.h>
#endif

#include "kernels/cublas.hpp"
#include "kernels/runtime_library.hpp"

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
constexpr const char* library_names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"};

void check_xt(cublasxt_library::result result, const char* action) {
  if (const fault failed = cublas_fault(result)) {
    throw std::runtime_error(std::string("cuBLAS-Xt could not ") + action + ": " + failed.name);
  }
}

}  // namespace

std::shared_ptr<const cublasxt_library> cublasxt_library::load() {
  const runtime_library library({.need = "engine = \"xt\" needs cuBLAS",
                                 .kind = "a cuBLAS",
                                 .variable = "PENSTOCK_CUBLAS",
                                 .names = library_names,
                                 .hint = installation_hint,
                                 .with_toolkit = true});
  auto found = std::make_shared<cublasxt_library>();
  library.find("cublasXtCreate", found->create);
  library.find("cublasXtDestroy", found->destroy);
  library.find("cublasXtDeviceSelect", found->select_devices);
  library.find("cublasXtSgemm", found->sgemm);
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
