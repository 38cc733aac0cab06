#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kernels/cufft.hpp"
#include "kernels/fourier.hpp"
#include "kernels/kernel_queue.hpp"
#include "kernels/power_spectrum.hpp"
#include "kernels/window.hpp"
#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/operators_cuda.hpp"

namespace penstock::bench {
namespace {

using numbers = std::vector<float>;

/// Rows that are transformed together.
struct transform_rows {
  std::int64_t length = 0;
  std::int64_t count = 0;
  bool complex = false;

  [[nodiscard]] std::int64_t bins() const noexcept { return complex ? length : length / 2 + 1; }
  [[nodiscard]] std::size_t sample_bytes() const noexcept {
    return static_cast<std::size_t>(count * length) * (complex ? 2 : 1) * sizeof(float);
  }
  [[nodiscard]] std::size_t spectrum_bytes() const noexcept {
    return static_cast<std::size_t>(count * bins()) * 2 * sizeof(float);
  }
};

/// `call` takes the CUDA stream.
template <class Call>
fault enqueue(void* stream, const Call& call) noexcept {
  return kernel_queue::of(stream).enqueue([&](cudaStream_t cuda_stream) {
    const cudaError_t status = call(cuda_stream);
    return status == cudaSuccess ? fault{} : fault{cudaGetErrorName(status)};
  });
}

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

cufft_plan forward_plan(const transform_rows& rows) {
  const auto kind = rows.complex ? cufft_plan::kind::complex_to_complex : cufft_plan::kind::real_to_complex;
  return {cufft_library::load(), kind, rows.length, rows.count};
}

// cuFFT does not accept nullptr as a work area.
std::size_t work_bytes_of(std::size_t bytes) noexcept {
  return aligned(std::max<std::size_t>(1, bytes));
}

class cuda_copy final : public operation {
 public:
  explicit cuda_copy(std::size_t bytes) : bytes_(bytes) {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return enqueue(stream, [&](cudaStream_t cuda_stream) {
      return cudaMemcpyAsync(arguments.output, arguments.inputs[0], bytes_, cudaMemcpyDeviceToDevice, cuda_stream);
    });
  }

 private:
  std::size_t bytes_;
};

class empty_launch_operation final : public operation {
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

numbers hann_weights(const transform_rows& rows) {
  numbers weights;
  for (const double weight : window_coefficients(window_function::hann, rows.length)) {
    weights.insert(weights.end(), rows.complex ? 2 : 1, static_cast<float>(weight));
  }
  return weights;
}

// A transform between a pass that weighs the input and one that makes powers of the bins, each over the whole batch.
// Complex rows are transformed in place. Scratch: weighed samples, spectra of real rows, cuFFT's work area.
class transform_with_passes final : public operation {
 public:
  transform_with_passes(const transform_rows& rows, bool decibels)
      : rows_(rows),
        decibels_(decibels),
        weights_(device_table(hann_weights(rows))),
        plan_(forward_plan(rows)),
        spectra_offset_(rows.complex ? 0 : aligned(rows.sample_bytes())),
        work_offset_(spectra_offset_ + aligned(rows.spectrum_bytes())) {
    if (rows.length % 4 != 0) {
      throw std::runtime_error(fmt::format("the passes take rows of a multiple of 4, not {}", rows.length));
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return work_offset_ + work_bytes_of(plan_.work_bytes());
  }
  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    if (const fault failed = enqueue(stream, [&](cudaStream_t cuda_stream) {
          return launch_weights(cuda_stream, static_cast<const float*>(arguments.inputs[0]), weights_.get(),
                                reinterpret_cast<float*>(scratch), rows_.complex ? 2 * rows_.length : rows_.length,
                                rows_.count);
        })) {
      return failed;
    }
    if (const fault failed = plan_.run(stream, scratch + work_offset_, scratch, scratch + spectra_offset_)) {
      return failed;
    }
    const float half = static_cast<float>(rows_.length) / 2;  // the sum of a Hann window
    return enqueue(stream, [&](cudaStream_t cuda_stream) {
      return launch_powers(cuda_stream, reinterpret_cast<const float*>(scratch + spectra_offset_),
                           static_cast<float*>(arguments.output), rows_.count * rows_.bins(),
                           decibels_ ? 1 / (half * half) : 1, decibels_);
    });
  }

 private:
  transform_rows rows_;
  bool decibels_;
  std::shared_ptr<const float> weights_;
  cufft_plan plan_;
  std::size_t spectra_offset_;
  std::size_t work_offset_;
};

// The power spectrum under a Hann window, from spectra without one: the window's spectrum has three lines, so each bin
// is half of itself less a quarter of either neighbour. `spectra` has (re, im) pairs.
numbers hann_powers(const numbers& spectra, std::int64_t length, bool complex) {
  const std::int64_t bins = complex ? length : length / 2 + 1;
  const auto rows = static_cast<std::int64_t>(spectra.size()) / (2 * bins);
  numbers powers;
  powers.reserve(static_cast<std::size_t>(rows * bins));
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const spectrum = spectra.data() + 2 * row * bins;
    const auto bin = [&](std::int64_t at) {
      const std::int64_t wrapped = (at + length) % length;
      const std::int64_t held = wrapped < bins ? wrapped : length - wrapped;
      const std::complex<float> value(spectrum[2 * held], spectrum[2 * held + 1]);
      return wrapped < bins ? value : std::conj(value);
    };
    for (std::int64_t at = 0; at < bins; ++at) {
      powers.push_back(std::norm(0.5F * bin(at) - 0.25F * (bin(at - 1) + bin(at + 1))));
    }
  }
  return powers;
}

// From decibels relative to a full-scale tone under that window: docs/operators.md, power_spectrum.
numbers powers_of_decibels(const numbers& decibels, std::int64_t length) {
  const float full_scale = static_cast<float>(length) * static_cast<float>(length) / 4;
  numbers powers;
  std::transform(decibels.begin(), decibels.end(), std::back_inserter(powers),
                 [=](float level) { return full_scale * std::pow(10.0F, level / 10); });
  return powers;
}

/// cuFFT's own result, unscaled and with bin 0 first, as the operator gives it.
numbers placed(numbers values, const fourier_settings& settings, std::int64_t numbers_a_row) {
  if (settings.shift != 0) {
    for (auto row = values.begin(); row != values.end(); row += numbers_a_row) {
      std::rotate(row, row + (numbers_a_row - 2 * settings.shift), row + numbers_a_row);
    }
  }
  std::transform(values.begin(), values.end(), values.begin(), [&](float value) { return settings.scale * value; });
  return values;
}

/// None where cuFFT would write to its input, or where the rows don't lie along the last axis.
std::vector<library_call> cufft_transform(const operator_case& subject) {
  std::vector<library_call> calls;
  const tensor_spec& input = subject.inputs.front();
  const std::int64_t* const axis = subject.settings.find<std::int64_t>("axis");
  if (axis != nullptr && *axis + 1 != static_cast<std::int64_t>(input.shape.size())) {
    return calls;
  }
  const fourier_settings settings =
      subject.op == "fft" ? parse_fft(subject.settings, input) : parse_ifft(subject.settings, input);
  if (settings.inverse && (settings.half || settings.shift != 0)) {
    return calls;
  }
  const transform_rows rows{.length = settings.length,
                            .count = subject.frames * settings.rows.count({.frames = 1}),
                            .complex = settings.complex_input || settings.inverse};
  const auto kind = settings.inverse ? cufft_plan::kind::complex_inverse
                    : rows.complex   ? cufft_plan::kind::complex_to_complex
                                     : cufft_plan::kind::real_to_complex;
  calls.push_back(
      {.key = "of_cufft",
       .call = fmt::format("{} of {} × {}", rows.complex ? "cufftExecC2C" : "cufftExecR2C", rows.count, rows.length),
       .work = std::make_unique<bare_transform>(cufft_plan{cufft_library::load(), kind, rows.length, rows.count}),
       .output_bytes = rows.spectrum_bytes(),
       .difference = [=](const numbers& values, const numbers& operators) {
         return difference_of(placed(values, settings, 2 * rows.bins()), operators);
       }});
  return calls;
}

std::vector<library_call> cufft_calls(const operator_case& subject) {
  if (subject.op == "fft" || subject.op == "ifft") {
    return cufft_transform(subject);
  }
  std::vector<library_call> calls;
  if (subject.op != "power_spectrum") {
    return calls;
  }
  const power_spectrum_settings settings = parse_power_spectrum(subject.settings, subject.inputs.front());
  const transform_rows rows{.length = settings.length,
                            .count = subject.frames * settings.rows.count({.frames = 1}),
                            .complex = settings.complex_input};
  const auto powers = [=, decibels = settings.decibels](const numbers& values) {
    return decibels ? powers_of_decibels(values, rows.length) : values;
  };
  calls.push_back(
      {.key = "of_cufft",
       .call = fmt::format("{} of {} × {}", rows.complex ? "cufftExecC2C" : "cufftExecR2C", rows.count, rows.length),
       .work = std::make_unique<bare_transform>(forward_plan(rows)),
       .output_bytes = rows.spectrum_bytes(),
       .difference = [=](const numbers& spectra, const numbers& operators) {
         return difference_of(hann_powers(spectra, rows.length, rows.complex), powers(operators));
       }});
  calls.push_back({.key = "of_cufft_passes",
                   .call = "cuFFT between two passes",
                   .work = std::make_unique<transform_with_passes>(rows, settings.decibels),
                   .output_bytes = subject.output_bytes(),
                   .difference = [=](const numbers& values, const numbers& operators) {
                     return difference_of(powers(values), powers(operators));
                   }});
  return calls;
}

class cuda_calls final : public library_calls {
 public:
  cuda_calls() {
    try {
      blas_ = load_cublas();
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "no comparison with cuBLAS: %s\n", error.what());
    }
  }

  [[nodiscard]] std::unique_ptr<operation> copy(std::size_t bytes) const override {
    return std::make_unique<cuda_copy>(bytes);
  }
  [[nodiscard]] std::unique_ptr<operation> empty_launch() const override {
    return std::make_unique<empty_launch_operation>();
  }

  [[nodiscard]] library_call_list calls_for(const operator_case& subject) const override {
    library_call_list found;
    const auto add = [&](std::vector<library_call> calls) {
      std::move(calls.begin(), calls.end(), std::back_inserter(found.calls));
    };
    try {
      add(cufft_calls(subject));
    } catch (const std::runtime_error& error) {
      found.missing.push_back(std::string("cuFFT: ") + error.what());
    }
    try {
      add(cublaslt_calls(subject));
    } catch (const std::runtime_error& error) {
      found.missing.push_back(std::string("cuBLASLt: ") + error.what());
    }
    try {
      add(cudnn_calls(subject));
    } catch (const std::runtime_error& error) {
      found.missing.push_back(std::string("cuDNN: ") + error.what());
    }
    try {
      if (blas_ != nullptr) {
        add(cublas_calls(blas_, subject));
      } else if (has_cublas_calls(subject)) {
        found.missing.emplace_back("cuBLAS was not found");
      }
    } catch (const std::runtime_error& error) {
      found.missing.push_back(std::string("cuBLAS: ") + error.what());
    }
    return found;
  }

  [[nodiscard]] nlohmann::ordered_json facts() const override {
    int device = 0;
    int cache_bytes = 0;
    require(cudaGetDevice(&device), "cudaGetDevice");
    require(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
    int fft_version = 0;
    try {
      static_cast<void>(cufft_library::load()->get_version(&fft_version));
    } catch (const std::runtime_error&) {
      fft_version = 0;
    }
    return {{"cache_bytes", cache_bytes},
            {"cufft_version", fft_version},
            {"cublas_version", blas_ != nullptr ? version_of(*blas_) : 0}};
  }

 private:
  std::shared_ptr<cublas> blas_;
};

}  // namespace

std::shared_ptr<const float> device_table(const std::vector<float>& numbers) {
  void* place = nullptr;
  const std::size_t bytes = numbers.size() * sizeof(float);
  require(cudaMalloc(&place, bytes), "cudaMalloc");
  std::shared_ptr<const float> table(static_cast<float*>(place), [place](const float*) { cudaFree(place); });
  require(cudaMemcpy(place, numbers.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // other streams do not wait for this one
  return table;
}

std::unique_ptr<library_calls> open_library_calls() {
  return std::make_unique<cuda_calls>();
}

}  // namespace penstock::bench
