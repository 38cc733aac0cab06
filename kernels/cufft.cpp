#include "kernels/cufft.hpp"

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#if __has_include(<cufft.h>)
#include <cufft.h>
#endif

#include "kernels/kernel_queue.hpp"
#include "kernels/runtime_library.hpp"

namespace penstock {
namespace {

#if __has_include(<cufft.h>)
static_assert(cufft_library::success == CUFFT_SUCCESS);
static_assert(cufft_library::real_to_complex == CUFFT_R2C);
static_assert(cufft_library::complex_to_real == CUFFT_C2R);
static_assert(cufft_library::complex_to_complex == CUFFT_C2C);
static_assert(cufft_library::forward == CUFFT_FORWARD);
static_assert(cufft_library::inverse == CUFFT_INVERSE);
static_assert(sizeof(cufft_library::handle) == sizeof(cufftHandle));
static_assert(sizeof(cufft_library::result) == sizeof(cufftResult));
#endif

constexpr const char* installation_hint =
    "install the CUDA toolkit's cuFFT (package libcufft-13-0 or libcufft-12-x of the same major version as the "
    "driver's CUDA) or set PENSTOCK_CUFFT to the path of libcufft.so.12 or libcufft.so.11";
constexpr const char* library_names[] = {"libcufft.so.12", "libcufft.so.11", "libcufft.so"};

void check(const cufft_library& library, cufft_library::result result, const char* action) {
  if (const fault failed = cufft_fault(result)) {
    int version = 0;
    library.get_version(&version);
    throw std::runtime_error("cuFFT " + std::to_string(version) + " could not " + action + ": " + failed.name);
  }
}

}  // namespace

std::shared_ptr<const cufft_library> cufft_library::load() {
  const runtime_library library({.need = "an FFT on the GPU needs cuFFT",
                                 .kind = "a cuFFT",
                                 .variable = "PENSTOCK_CUFFT",
                                 .names = library_names,
                                 .hint = installation_hint,
                                 .with_toolkit = true});
  auto found = std::make_shared<cufft_library>();
  library.find("cufftCreate", found->create);
  library.find("cufftSetAutoAllocation", found->set_auto_allocation);
  library.find("cufftMakePlanMany64", found->make_plan_many);
  library.find("cufftGetSize", found->get_size);
  library.find("cufftSetStream", found->set_stream);
  library.find("cufftSetWorkArea", found->set_work_area);
  library.find("cufftExecR2C", found->execute_real_to_complex);
  library.find("cufftExecC2R", found->execute_complex_to_real);
  library.find("cufftExecC2C", found->execute_complex_to_complex);
  library.find("cufftDestroy", found->destroy);
  library.find("cufftGetVersion", found->get_version);
  return found;
}

fault cufft_fault(cufft_library::result result) noexcept {
  static constexpr std::array<const char*, 21> names = {nullptr,
                                                        "CUFFT_INVALID_PLAN",
                                                        "CUFFT_ALLOC_FAILED",
                                                        "CUFFT_INVALID_TYPE",
                                                        "CUFFT_INVALID_VALUE",
                                                        "CUFFT_INTERNAL_ERROR",
                                                        "CUFFT_EXEC_FAILED",
                                                        "CUFFT_SETUP_FAILED",
                                                        "CUFFT_INVALID_SIZE",
                                                        "CUFFT_UNALIGNED_DATA",
                                                        "CUFFT_INCOMPLETE_PARAMETER_LIST",
                                                        "CUFFT_INVALID_DEVICE",
                                                        "CUFFT_PARSE_ERROR",
                                                        "CUFFT_NO_WORKSPACE",
                                                        "CUFFT_NOT_IMPLEMENTED",
                                                        "CUFFT_LICENSE_ERROR",
                                                        "CUFFT_NOT_SUPPORTED",
                                                        "CUFFT_MISSING_DEPENDENCY",
                                                        "CUFFT_NVRTC_FAILURE",
                                                        "CUFFT_NVJITLINK_FAILURE",
                                                        "CUFFT_NVSHMEM_FAILURE"};
  if (result < 0 || static_cast<std::size_t>(result) >= names.size()) {
    return fault{"CUFFT_UNKNOWN_ERROR"};
  }
  return fault{names[static_cast<std::size_t>(result)]};
}

cufft_plan::cufft_plan(std::shared_ptr<const cufft_library> library, kind transform, std::int64_t length,
                       std::int64_t rows)
    : library_(std::move(library)), transform_(transform), rows_(rows) {
  check(*library_, library_->create(&handle_), "create a plan");
  try {
    check(*library_, library_->set_auto_allocation(handle_, 0), "keep its work area apart");
    long long extent = length;
    const long long bins = extent / 2 + 1;
    const bool to_real = transform == kind::complex_to_real;
    const bool from_real = transform == kind::real_to_complex;
    const int type = to_real     ? cufft_library::complex_to_real
                     : from_real ? cufft_library::real_to_complex
                                 : cufft_library::complex_to_complex;
    check(*library_,
          library_->make_plan_many(handle_, 1, &extent, nullptr, 1, to_real ? bins : extent, nullptr, 1,
                                   from_real ? bins : extent, type, rows, &work_bytes_),
          ("plan " + std::to_string(rows) + " transforms of " + std::to_string(length)).c_str());
    check(*library_, library_->get_size(handle_, &work_bytes_), "tell the size of its work area");
  } catch (...) {
    library_->destroy(handle_);
    throw;
  }
}

cufft_plan::cufft_plan(cufft_plan&& other) noexcept
    : library_(std::move(other.library_)),
      transform_(other.transform_),
      rows_(other.rows_),
      work_bytes_(other.work_bytes_),
      handle_(std::exchange(other.handle_, -1)) {}

cufft_plan::~cufft_plan() {
  if (library_ != nullptr) {
    library_->destroy(handle_);
  }
}

fault cufft_plan::run(void* stream, void* work, void* input, void* output) const noexcept {
  return kernel_queue::of(stream).enqueue([&](cudaStream_t cuda_stream) {
    if (const fault failed = cufft_fault(library_->set_stream(handle_, cuda_stream))) {
      return failed;
    }
    if (const fault failed = cufft_fault(library_->set_work_area(handle_, work))) {
      return failed;
    }
    if (transform_ == kind::real_to_complex) {
      return cufft_fault(library_->execute_real_to_complex(handle_, input, output));
    }
    if (transform_ == kind::complex_to_real) {
      return cufft_fault(library_->execute_complex_to_real(handle_, input, output));
    }
    const int direction = transform_ == kind::complex_inverse ? cufft_library::inverse : cufft_library::forward;
    return cufft_fault(library_->execute_complex_to_complex(handle_, input, output, direction));
  });
}

}  // namespace penstock
