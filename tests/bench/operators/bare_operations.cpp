#include "tests/bench/operators/bare_operations.hpp"

#include <algorithm>
#include <utility>

#include <cuda_runtime_api.h>

#include "kernels/cufft.hpp"

namespace penstock::bench {
namespace {

class cuda_copy final : public operation {
 public:
  explicit cuda_copy(std::size_t bytes) : bytes_(bytes) {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const cudaError_t status = cudaMemcpyAsync(arguments.output, arguments.inputs[0], bytes_, cudaMemcpyDeviceToDevice,
                                               static_cast<cudaStream_t>(stream));
    return status == cudaSuccess ? fault{} : fault{cudaGetErrorName(status)};
  }

 private:
  std::size_t bytes_;
};

class bare_transform final : public operation {
 public:
  explicit bare_transform(cufft_plan plan) : plan_(std::move(plan)) {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return std::max<std::size_t>(1, plan_.work_bytes());
  }
  // cuFFT does not write to the input of a transform that is not in place.
  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return plan_.run(stream, arguments.scratch, const_cast<void*>(arguments.inputs[0]), arguments.output);
  }

 private:
  cufft_plan plan_;
};

}  // namespace

std::unique_ptr<operation> make_cuda_copy(std::size_t bytes) {
  return std::make_unique<cuda_copy>(bytes);
}

std::unique_ptr<operation> make_bare_transform(std::int64_t length, std::int64_t rows, bool complex_input) {
  const auto kind = complex_input ? cufft_plan::kind::complex_to_complex : cufft_plan::kind::real_to_complex;
  return std::make_unique<bare_transform>(cufft_plan(cufft_library::load(), kind, length, rows));
}

}  // namespace penstock::bench
