#include "tests/bench/operators/bare_operations.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "kernels/cufft.hpp"
#include "kernels/kernel_queue.hpp"
#include "kernels/window_function.hpp"
#include "tests/bench/operators/bare_spectrum.hpp"
#include "tests/bench/operators/device_table.hpp"
#include "tests/bench/operators/inverse_transform.hpp"

namespace penstock::bench {
namespace {

fault fault_of(cudaError_t status) noexcept {
  return status == cudaSuccess ? fault{} : fault{cudaGetErrorName(status)};
}

/// `call` takes the CUDA stream.
template <class Call>
fault enqueue(void* stream, const Call& call) noexcept {
  return kernel_queue::of(stream).enqueue([&](cudaStream_t on) { return fault_of(call(on)); });
}

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

cufft_plan forward_plan(const transform_rows& rows) {
  const auto kind = rows.complex ? cufft_plan::kind::complex_to_complex : cufft_plan::kind::real_to_complex;
  return {cufft_library::load(), kind, rows.length, rows.count};
}

// cuFFT takes no nullptr for a work area.
std::size_t work_bytes_of(std::size_t bytes) noexcept {
  return aligned(std::max<std::size_t>(1, bytes));
}

class cuda_copy final : public operation {
 public:
  explicit cuda_copy(std::size_t bytes) : bytes_(bytes) {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return enqueue(stream, [&](cudaStream_t on) {
      return cudaMemcpyAsync(arguments.output, arguments.inputs[0], bytes_, cudaMemcpyDeviceToDevice, on);
    });
  }

 private:
  std::size_t bytes_;
};

class empty_launch final : public operation {
 public:
  fault run(void* stream, const operation_arguments& /*arguments*/) noexcept override {
    return enqueue(stream, launch_nothing);
  }
};

class bare_transform final : public operation {
 public:
  explicit bare_transform(cufft_plan plan) : plan_(std::move(plan)) {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return work_bytes_of(plan_.work_bytes()); }
  // cuFFT does not write to the input of a transform that is not in place.
  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return plan_.run(stream, arguments.scratch, const_cast<void*>(arguments.inputs[0]), arguments.output);
  }

 private:
  cufft_plan plan_;
};

std::vector<float> hann_weights(const transform_rows& rows) {
  std::vector<float> made;
  for (const double weight : window_coefficients(window_function::hann, rows.length)) {
    made.insert(made.end(), rows.complex ? 2 : 1, static_cast<float>(weight));
  }
  return made;
}

// Complex rows are transformed in place. The scratch: weighed samples, spectra of real rows, cuFFT's work area.
class bare_powers final : public operation {
 public:
  bare_powers(const transform_rows& rows, bool decibels)
      : rows_(rows),
        decibels_(decibels),
        weights_(device_table(hann_weights(rows))),
        plan_(forward_plan(rows)),
        spectra_at_(rows.complex ? 0 : aligned(rows.sample_bytes())),
        work_at_(spectra_at_ + aligned(rows.spectrum_bytes())) {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return work_at_ + work_bytes_of(plan_.work_bytes());
  }
  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    if (const fault failed = enqueue(stream, [&](cudaStream_t on) {
          return launch_weights(on, static_cast<const float*>(arguments.inputs[0]), weights_.get(),
                                reinterpret_cast<float*>(scratch), rows_.complex ? 2 * rows_.length : rows_.length,
                                rows_.count);
        })) {
      return failed;
    }
    if (const fault failed = plan_.run(stream, scratch + work_at_, scratch, scratch + spectra_at_)) {
      return failed;
    }
    const float half = static_cast<float>(rows_.length) / 2;  // the sum of a Hann window
    return enqueue(stream, [&](cudaStream_t on) {
      return launch_powers(on, reinterpret_cast<const float*>(scratch + spectra_at_),
                           static_cast<float*>(arguments.output), rows_.count * rows_.bins(),
                           decibels_ ? 1 / (half * half) : 1, decibels_);
    });
  }

 private:
  transform_rows rows_;
  bool decibels_;
  std::shared_ptr<const float> weights_;
  cufft_plan plan_;
  std::size_t spectra_at_;
  std::size_t work_at_;
};

// The scratch: spectra, and a work area that both directions use in turn.
class there_and_back final : public operation {
 public:
  there_and_back(const transform_rows& rows, const std::vector<float>& samples)
      : samples_(device_table(samples)),
        there_(forward_plan(rows)),
        back_(rows.complex, rows.length, rows.count),
        work_at_(aligned(rows.spectrum_bytes())) {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return work_at_ + work_bytes_of(std::max(there_.work_bytes(), back_.work_bytes()));
  }
  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    if (const fault failed = there_.run(stream, scratch + work_at_, const_cast<float*>(samples_.get()), scratch)) {
      return failed;
    }
    return back_.run(stream, scratch + work_at_, scratch, arguments.output);
  }

 private:
  std::shared_ptr<const float> samples_;
  cufft_plan there_;
  inverse_transform back_;
  std::size_t work_at_;
};

}  // namespace

std::unique_ptr<operation> make_cuda_copy(std::size_t bytes) {
  return std::make_unique<cuda_copy>(bytes);
}

std::unique_ptr<operation> make_empty_launch() {
  return std::make_unique<empty_launch>();
}

std::unique_ptr<operation> make_bare_transform(const transform_rows& rows) {
  return std::make_unique<bare_transform>(forward_plan(rows));
}

std::unique_ptr<operation> make_bare_powers(const transform_rows& rows, bool decibels) {
  if (rows.length % 4 != 0) {
    throw std::runtime_error("the bare passes take rows of a multiple of 4, not " + std::to_string(rows.length));
  }
  return std::make_unique<bare_powers>(rows, decibels);
}

std::unique_ptr<operation> make_there_and_back(const transform_rows& rows, const std::vector<float>& samples) {
  if (samples.size() * sizeof(float) != rows.sample_bytes()) {
    throw std::runtime_error("the transforms there and back were given other samples than they take");
  }
  return std::make_unique<there_and_back>(rows, samples);
}

}  // namespace penstock::bench
