#include "kernels/affine.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "kernels/element_values.hpp"
#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

PENSTOCK_VECTOR_CLONES void scale_real(const float* __restrict in, float* __restrict out, std::size_t count, float a,
                                       float b) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = a * in[i] + b;
  }
}

PENSTOCK_VECTOR_CLONES void scale_complex(const float* __restrict in, float* __restrict out, std::size_t count, float a,
                                          float b) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = a * in[2 * i] + b;
    out[2 * i + 1] = a * in[2 * i + 1];
  }
}

// The same where the output is the input.
PENSTOCK_VECTOR_CLONES void rescale_real(float* data, std::size_t count, float a, float b) {
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = a * data[i] + b;
  }
}

PENSTOCK_VECTOR_CLONES void rescale_complex(float* data, std::size_t count, float a, float b) {
  for (std::size_t i = 0; i < count; ++i) {
    data[2 * i] = a * data[2 * i] + b;
    data[2 * i + 1] = a * data[2 * i + 1];
  }
}

// Reads and writes each element once, so that the output may be the input.
PENSTOCK_VECTOR_CLONES void scale_f64(const double* in, double* out, std::size_t count, double a, double b) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = a * in[i] + b;
  }
}

/// Of f16 and bf16: in single precision.
void scale_small(const std::byte* in, std::byte* out, std::size_t count, element_type type, float a, float b) {
  constexpr std::size_t block = 512;
  std::array<double, block> numbers;
  const read_values read = reader_of(type);
  const write_values write = writer_of(type);
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t length = std::min(block, count - first);
    const std::size_t place = first * size_of(type);
    read(in + place, 1, length, numbers.data());
    for (std::size_t i = 0; i < length; ++i) {
      numbers[i] = static_cast<double>(a * static_cast<float>(numbers[i]) + b);
    }
    write(numbers.data(), out + place, 1, length);
  }
}

class affine_host final : public operation {
 public:
  explicit affine_host(affine_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const auto elements = static_cast<std::size_t>(settings_.input.elements(extent.leading));
    const auto frames = static_cast<std::size_t>(extent.frames);
    const auto* const in = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* const out = static_cast<std::byte*>(arguments.output);
    if (arguments.numbers == nullptr) {
      scale(in, out, frames * elements, settings_.a, settings_.b);
      return {};
    }
    const std::size_t pitch = elements * size_of(settings_.input.type);
    for (std::size_t frame = 0; frame < frames; ++frame) {
      const double* const numbers = arguments.numbers + 2 * frame;
      scale(in + frame * pitch, out + frame * pitch, elements, numbers[0], numbers[1]);
    }
    return {};
  }

 private:
  void scale(const std::byte* in, std::byte* out, std::size_t count, double exact_a, double exact_b) const noexcept {
    const element_type type = settings_.input.type;
    if (type == element_type::f64) {
      scale_f64(reinterpret_cast<const double*>(in), reinterpret_cast<double*>(out), count, exact_a, exact_b);
      return;
    }
    const auto a = static_cast<float>(exact_a);
    const auto b = static_cast<float>(exact_b);
    if (type == element_type::f16 || type == element_type::bf16) {
      scale_small(in, out, count, type, a, b);
      return;
    }
    auto* const to = reinterpret_cast<float*>(out);
    if (in == out) {
      (settings_.complex_input ? rescale_complex : rescale_real)(to, count, a, b);
    } else {
      (settings_.complex_input ? scale_complex : scale_real)(reinterpret_cast<const float*>(in), to, count, a, b);
    }
  }

  const affine_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_affine_host(const operation_request& request) {
  return std::make_unique<affine_host>(parse_affine(request.settings, request.inputs[0]));
}

}  // namespace penstock
