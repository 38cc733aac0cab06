#include "kernels/fold.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

// `first` may be `out`: later inputs are folded into what the earlier ones gave.

PENSTOCK_VECTOR_CLONES void add_values(const float* first, const float* __restrict second, float* out,
                                       std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = first[i] + second[i];
  }
}

PENSTOCK_VECTOR_CLONES void multiply_values(const float* first, const float* __restrict second, float* out,
                                            std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = first[i] * second[i];
  }
}

/// `sign` is −1 to conjugate the second factor, else 1.
PENSTOCK_VECTOR_CLONES void multiply_complex(const float* first, const float* __restrict second, float* out,
                                             std::size_t count, float sign) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const float re = first[2 * i];
    const float im = first[2 * i + 1];
    const float by_re = second[2 * i];
    const float by_im = sign * second[2 * i + 1];
    out[2 * i] = re * by_re - im * by_im;
    out[2 * i + 1] = re * by_im + im * by_re;
  }
}

PENSTOCK_VECTOR_CLONES void multiply_by_number(const float* __restrict values, float by, float* __restrict out,
                                               std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = values[i] * by;
  }
}

PENSTOCK_VECTOR_CLONES void repeat_pair(float first, float second, float* out, std::size_t pairs) {
  for (std::size_t i = 0; i < pairs; ++i) {
    out[2 * i] = first;
    out[2 * i + 1] = second;
  }
}

/// Real values by complex factors.
PENSTOCK_VECTOR_CLONES void multiply_to_complex(const float* __restrict values, const float* __restrict by,
                                                float* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = values[i] * by[2 * i];
    out[2 * i + 1] = values[i] * by[2 * i + 1];
  }
}

/// Floats that stay in the first-level cache while one input after the other is folded into them.
constexpr std::size_t block_values = 2048;

class fold_host final : public operation {
 public:
  explicit fold_host(fold_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto count = static_cast<std::size_t>(settings_.count(arguments.extent)) * (settings_.complex_input ? 2 : 1);
    auto* const out = static_cast<float*>(arguments.output);
    for (std::size_t first = 0; first < count; first += block_values) {
      const std::size_t length = std::min(block_values, count - first);
      const auto* folded = static_cast<const float*>(arguments.inputs[0]) + first;
      for (const void* const input : arguments.inputs.subspan(1)) {
        combine(folded, static_cast<const float*>(input) + first, out + first, length);
        folded = out + first;
      }
    }
    return {};
  }

 private:
  void combine(const float* first, const float* second, float* out, std::size_t count) const noexcept {
    if (settings_.combine == fold_settings::combination::sum) {
      add_values(first, second, out, count);
    } else if (!settings_.complex_input) {
      multiply_values(first, second, out, count);
    } else {
      const bool conjugate = settings_.combine == fold_settings::combination::conjugate_product;
      multiply_complex(first, second, out, count / 2, conjugate ? -1.0F : 1.0F);
    }
  }

  const fold_settings settings_;
};

/// By a constant array. A stretch of elements at a time meets as many factors that lie side by side, in pairs of floats
/// where either is complex: of the array, repeated until it is long enough to be worth a loop, or of one of its
/// elements.
class constant_product_host final : public operation {
 public:
  explicit constant_product_host(fold_settings settings)
      : settings_{std::move(settings)},
        complex_output_{is_complex(settings_.output.type)},
        width_{static_cast<std::size_t>(complex_output_ ? 2 : 1)} {
    const std::size_t parts = settings_.complex_constant ? 2 : 1;
    const auto run = static_cast<std::size_t>(settings_.run);
    by_run_ = run >= least_run;
    const auto add = [&](std::size_t place) {
      factors_.push_back(settings_.constant[place]);
      if (width_ == 2) {
        factors_.push_back(settings_.constant[place + parts - 1]);
      }
    };
    for (std::size_t place = 0; place < settings_.constant.size(); place += parts) {
      for (std::size_t time = 0; time < (by_run_ ? 1 : run); ++time) {
        add(place);
      }
    }
    const std::size_t once = factors_.size();
    const std::size_t times = by_run_ ? 1 : (block_values + once - 1) / once;
    for (std::size_t at = once; at < times * once; ++at) {
      factors_.push_back(factors_[at - once]);
    }
  }

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return by_run_ && settings_.complex_constant ? block_values * sizeof(float) : 0;
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto count = static_cast<std::size_t>(settings_.count(arguments.extent));
    const auto* const in = static_cast<const float*>(arguments.inputs[0]);
    auto* const out = static_cast<float*>(arguments.output);
    if (!by_run_) {
      const std::size_t length = factors_.size() / width_;
      for (std::size_t first = 0; first < count; first += length) {
        multiply(in, factors_.data(), out, first, std::min(length, count - first));
      }
      return {};
    }
    auto* const same = static_cast<float*>(arguments.scratch);
    const auto run = static_cast<std::size_t>(settings_.run);
    const std::size_t length = std::min(run, block_values / 2);
    for (std::size_t first = 0, place = 0; first < count; first += run) {
      if (!settings_.complex_constant) {
        multiply_by_number(in + width_ * first, factors_[place], out + width_ * first, width_ * run);
      } else {
        repeat_pair(factors_[place], factors_[place + 1], same, length);
        for (std::size_t done = 0; done < run; done += length) {
          multiply(in, same, out, first + done, std::min(length, run - done));
        }
      }
      place = place + width_ == factors_.size() ? 0 : place + width_;
    }
    return {};
  }

 private:
  /// A stretch of fewer equal factors than these is laid out.
  static constexpr std::size_t least_run = 64;

  void multiply(const float* in, const float* factors, float* out, std::size_t first,
                std::size_t count) const noexcept {
    if (!settings_.complex_input && complex_output_) {
      multiply_to_complex(in + first, factors, out + 2 * first, count);
    } else if (settings_.complex_constant) {
      multiply_complex(in + 2 * first, factors, out + 2 * first, count, 1.0F);
    } else {
      multiply_values(in + width_ * first, factors, out + width_ * first, width_ * count);
    }
  }

  const fold_settings settings_;
  const bool complex_output_;
  const std::size_t width_;  ///< floats of an element of the output, and of a factor
  bool by_run_ = false;      ///< each factor is for `run` elements; else the array is laid out
  std::vector<float> factors_;
};

}  // namespace

std::unique_ptr<operation> make_add_host(const operation_request& request) {
  return std::make_unique<fold_host>(parse_add(request.settings, request.inputs));
}

std::unique_ptr<operation> make_multiply_host(const operation_request& request) {
  fold_settings settings = parse_multiply(request.settings, request.inputs);
  if (!settings.constant.empty()) {
    return std::make_unique<constant_product_host>(std::move(settings));
  }
  return std::make_unique<fold_host>(std::move(settings));
}

}  // namespace penstock
