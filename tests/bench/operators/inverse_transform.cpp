#include "tests/bench/operators/inverse_transform.hpp"

#include <stdexcept>
#include <string>

#if __has_include(<cufft.h>)
#include <cufft.h>
#endif

#include "kernels/kernel_queue.hpp"
#include "tests/bench/operators/vendor_library.hpp"

namespace penstock::bench {
namespace {

constexpr int complex_to_real = 0x2c;
constexpr int backward = 1;

#if __has_include(<cufft.h>)
static_assert(complex_to_real == CUFFT_C2R);
static_assert(backward == CUFFT_INVERSE);
#endif

void check(cufft_library::result result, const char* call) {
  if (const fault failed = cufft_fault(result)) {
    throw std::runtime_error(std::string(call) + " failed: " + failed.name);
  }
}

}  // namespace

inverse_transform::inverse_transform(bool complex, std::int64_t length, std::int64_t rows)
    : library_(cufft_library::load()), complex_(complex) {
  if (!complex) {
    vendor_library("PENSTOCK_CUFFT", {"libcufft.so.12", "libcufft.so.11", "libcufft.so"})
        .resolve("cufftExecC2R", execute_complex_to_real_);
  }
  check(library_->create(&handle_), "cufftCreate");
  try {
    plan(length, rows);
  } catch (...) {
    library_->destroy(handle_);
    throw;
  }
}

inverse_transform::~inverse_transform() {
  library_->destroy(handle_);
}

void inverse_transform::plan(std::int64_t length, std::int64_t rows) {
  long long extent = length;
  const long long bins = complex_ ? extent : extent / 2 + 1;
  const int type = complex_ ? cufft_library::complex_to_complex : complex_to_real;
  check(library_->set_auto_allocation(handle_, 0), "cufftSetAutoAllocation");
  check(library_->make_plan_many(handle_, 1, &extent, nullptr, 1, bins, nullptr, 1, extent, type, rows, &work_bytes_),
        "cufftMakePlanMany64");
  check(library_->get_size(handle_, &work_bytes_), "cufftGetSize");
}

fault inverse_transform::run(void* stream, void* work, void* input, void* output) const noexcept {
  return kernel_queue::of(stream).enqueue([&](cudaStream_t on) {
    if (const fault failed = cufft_fault(library_->set_stream(handle_, on))) {
      return failed;
    }
    if (const fault failed = cufft_fault(library_->set_work_area(handle_, work))) {
      return failed;
    }
    return cufft_fault(complex_ ? library_->execute_complex_to_complex(handle_, input, output, backward)
                                : execute_complex_to_real_(handle_, input, output));
  });
}

}  // namespace penstock::bench
