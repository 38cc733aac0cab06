#include "tests/bench/operators/cublas.hpp"

#include <stdexcept>
#include <string>

#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#endif

#include "kernels/kernel_queue.hpp"
#include "tests/bench/operators/vendor_library.hpp"

namespace penstock::bench {
namespace {

#if __has_include(<cublas_v2.h>)
static_assert(cublas::plain == CUBLAS_OP_N);
static_assert(cublas::transposed == CUBLAS_OP_T);
static_assert(cublas::left == CUBLAS_SIDE_LEFT);
static_assert(cublas::on_host == CUBLAS_POINTER_MODE_HOST);
static_assert(cublas::on_device == CUBLAS_POINTER_MODE_DEVICE);
static_assert(sizeof(cublas::context) == sizeof(cublasHandle_t));
static_assert(sizeof(cublas::status) == sizeof(cublasStatus_t));
#endif

void check(cublas::status status, const char* call) {
  if (const fault failed = cublas_fault(status)) {
    throw std::runtime_error(std::string(call) + " failed: " + failed.name);
  }
}

}  // namespace

cublas::cublas() {
  const vendor_library library("PENSTOCK_CUBLAS",
                               {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"});
  library.resolve("cublasCreate_v2", create_);
  library.resolve("cublasDestroy_v2", destroy_);
  library.resolve("cublasGetVersion_v2", get_version_);
  library.resolve("cublasSetStream_v2", set_stream_);
  library.resolve("cublasSetPointerMode_v2", set_pointer_mode);
  library.resolve("cublasSgeam", sgeam);
  library.resolve("cublasSdgmm", sdgmm);
  library.resolve("cublasCdgmm", cdgmm);
  library.resolve("cublasSgemv_v2", sgemv);
  library.resolve("cublasSnrm2_v2", snrm2);
  library.resolve("cublasSgemmStridedBatched", sgemm_batched);
  check(create_(&handle_), "cublasCreate");
}

cublas::~cublas() {
  static_cast<void>(destroy_(handle_));
}

int cublas::version() const {
  int version = 0;
  check(get_version_(handle_, &version), "cublasGetVersion");
  return version;
}

fault cublas::use(void* stream) noexcept {
  if (stream == nullptr) {
    stream_ = nullptr;
    return cublas_fault(set_stream_(handle_, nullptr));
  }
  return kernel_queue::of(stream).enqueue([&](cudaStream_t on) {
    if (stream == stream_) {
      return fault{};
    }
    const fault failed = cublas_fault(set_stream_(handle_, on));
    stream_ = failed ? nullptr : stream;
    return failed;
  });
}

fault cublas_fault(cublas::status of) noexcept {
  switch (of) {
    case 0:
      return {};
    case 1:
      return fault{"CUBLAS_STATUS_NOT_INITIALIZED"};
    case 3:
      return fault{"CUBLAS_STATUS_ALLOC_FAILED"};
    case 7:
      return fault{"CUBLAS_STATUS_INVALID_VALUE"};
    case 8:
      return fault{"CUBLAS_STATUS_ARCH_MISMATCH"};
    case 11:
      return fault{"CUBLAS_STATUS_MAPPING_ERROR"};
    case 13:
      return fault{"CUBLAS_STATUS_EXECUTION_FAILED"};
    case 14:
      return fault{"CUBLAS_STATUS_INTERNAL_ERROR"};
    case 15:
      return fault{"CUBLAS_STATUS_NOT_SUPPORTED"};
    case 16:
      return fault{"CUBLAS_STATUS_LICENSE_ERROR"};
    default:
      return fault{"CUBLAS_STATUS_UNKNOWN"};
  }
}

}  // namespace penstock::bench
