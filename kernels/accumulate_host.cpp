#include "kernels/accumulate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/sliding_window_host.hpp"
#include "kernels/vector_clones.hpp"

namespace penstock {
namespace {

struct add_up {
  static constexpr float absent = 0.0F;

  static double joined(double a, double b) noexcept { return a + b; }
  static double result(double total, std::int64_t count) noexcept { return total / static_cast<double>(count); }
};

/// A NaN on either side stays.
struct take_larger {
  static constexpr float absent = -std::numeric_limits<float>::infinity();

  static double joined(double a, double b) noexcept { return a > b || std::isnan(a) ? a : b; }
  static double result(double total, std::int64_t /*count*/) noexcept { return total; }
};

/// `totals` are kept of the older part of each window; the newer one grows along with the results.
template <class Join, int Lanes>
[[gnu::always_inline]] inline void fold_stretch(const sliding_stretch& stretch, std::int64_t window) noexcept {
  constexpr auto lanes = static_cast<std::size_t>(Lanes);
  std::array<double, lanes> total;
  total.fill(static_cast<double>(Join::absent));
  for (std::int64_t step = window - 1; step >= 0; --step) {
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      total[lane] = Join::joined(total[lane], static_cast<double>(stretch.line[step * Lanes + static_cast<int>(lane)]));
    }
    if (step < stretch.steps) {
      std::copy_n(total.data(), lanes, stretch.scratch + step * Lanes);
    }
  }
  total.fill(static_cast<double>(Join::absent));
  for (std::int64_t step = 0; step < stretch.steps; ++step) {
    const std::int64_t count = std::min(window, stretch.position + step + 1);
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::int64_t place = step * Lanes + static_cast<int>(lane);
      stretch.results[place] =
          static_cast<float>(Join::result(Join::joined(stretch.scratch[place], total[lane]), count));
    }
    if (step + 1 < stretch.steps) {
      const float* const newer = stretch.line + (window + step) * Lanes;
#pragma omp simd
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        total[lane] = Join::joined(total[lane], static_cast<double>(newer[lane]));
      }
    }
  }
}

PENSTOCK_VECTOR_CLONES void mean_line(const sliding_stretch& stretch, std::int64_t window) {
  fold_stretch<add_up, 1>(stretch, window);
}
PENSTOCK_VECTOR_CLONES void mean_lanes(const sliding_stretch& stretch, std::int64_t window) {
  fold_stretch<add_up, sliding_lanes>(stretch, window);
}
PENSTOCK_VECTOR_CLONES void peak_line(const sliding_stretch& stretch, std::int64_t window) {
  fold_stretch<take_larger, 1>(stretch, window);
}
PENSTOCK_VECTOR_CLONES void peak_lanes(const sliding_stretch& stretch, std::int64_t window) {
  fold_stretch<take_larger, sliding_lanes>(stretch, window);
}

struct mean_fold {
  static constexpr float absent = add_up::absent;
  static constexpr std::size_t scratch = 1;

  void operator()(const sliding_stretch& stretch, std::int64_t window, std::int64_t lanes) const noexcept {
    (lanes == 1 ? mean_line : mean_lanes)(stretch, window);
  }
};

struct peak_fold {
  static constexpr float absent = take_larger::absent;
  static constexpr std::size_t scratch = 1;

  void operator()(const sliding_stretch& stretch, std::int64_t window, std::int64_t lanes) const noexcept {
    (lanes == 1 ? peak_line : peak_lanes)(stretch, window);
  }
};

struct store_result {
  void operator()(void* output, std::int64_t index, float value) const noexcept {
    static_cast<float*>(output)[index] = value;
  }
};

template <class Fold>
class accumulate_host final : public operation {
 public:
  explicit accumulate_host(const accumulate_settings& settings) : sliding_{settings.window, {}, {}} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return sliding_.scratch_bytes(); }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return sliding_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    sliding_.run(arguments);
    return {};
  }

 private:
  const sliding_window_host<Fold, store_result> sliding_;
};

}  // namespace

std::unique_ptr<operation> make_accumulate_host(const operation_request& request) {
  const accumulate_settings settings = parse_accumulate(request.settings, request.inputs[0]);
  if (settings.peak) {
    return std::make_unique<accumulate_host<peak_fold>>(settings);
  }
  return std::make_unique<accumulate_host<mean_fold>>(settings);
}

}  // namespace penstock
