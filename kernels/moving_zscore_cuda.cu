#include <cstdint>
#include <utility>

#include "kernels/moving_zscore.hpp"
#include "kernels/sliding_window.cuh"

namespace penstock {
namespace {

/// Of some steps: the sum of their differences to the pivot, and of the squares of these.
struct shifted_sums {
  double sum;
  double squares;
};

/// Sums of differences to one step of the window, in float64: that step is at most sqrt(window) deviations away from
/// the window's mean, so that at most a factor of `window` is lost to cancellation, whatever the level. There is no
/// division for a step but the last.
struct zscore_fold {
  using total = shifted_sums;
  static constexpr bool pivoted = true;

  double floor;

  static __device__ float absent() { return 0.0F; }
  static __device__ total none() { return {0.0, 0.0}; }
  static __device__ total of(float value, float pivot) {
    const double difference = static_cast<double>(value) - static_cast<double>(pivot);
    return {difference, difference * difference};
  }
  static __device__ total joined(const total& a, const total& b) { return {a.sum + b.sum, a.squares + b.squares}; }

  template <class Move>
  static __device__ total moved(const total& from, Move move) {
    return {move(from.sum), move(from.squares)};
  }

  /// A NaN or an infinity in the window makes its sums NaN or infinite, and the score NaN.
  template <class Fold>
  [[nodiscard]] __device__ float score(const window_halves<Fold>& of, float current, std::int64_t position,
                                       std::int64_t window) const {
    if (position < window) {
      return 0.0F;
    }
    const auto older_pivot = static_cast<double>(of.older_pivot);
    // The newer part's sums as differences to the older one's pivot.
    const auto count = static_cast<double>(of.newer_count);
    const double apart = of.newer_count == 0 ? 0.0 : static_cast<double>(of.newer_pivot) - older_pivot;
    const double sum = fma(count, apart, of.older.sum + of.newer.sum);
    const double squares = fma(apart, fma(count, apart, 2.0 * of.newer.sum), of.older.squares + of.newer.squares);
    const double share = 1.0 / static_cast<double>(window);
    const double mean = sum * share;
    const double variance = fma(-mean, mean, squares * share);
    const double deviation = sqrt(variance < 0.0 ? 0.0 : variance);
    const double scale = deviation < floor ? floor : deviation;
    return static_cast<float>((static_cast<double>(current) - older_pivot - mean) / scale);
  }
};

struct score_fold : zscore_fold {
  __device__ float result(const window_halves<score_fold>& of, float current, std::int64_t position,
                          std::int64_t window) const {
    return score(of, current, position, window);
  }
};

struct flag_fold : zscore_fold {
  double threshold;

  __device__ std::uint8_t result(const window_halves<flag_fold>& of, float current, std::int64_t position,
                                 std::int64_t window) const {
    return fabs(static_cast<double>(score(of, current, position, window))) > threshold ? 1 : 0;
  }
};

class moving_zscore_cuda final : public operation {
 public:
  explicit moving_zscore_cuda(moving_zscore_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.window.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if (settings_.flags) {
      return enqueue_sliding<flag_fold, std::uint8_t>(stream, settings_.window, arguments,
                                                      {{settings_.floor}, settings_.threshold});
    }
    return enqueue_sliding<score_fold, float>(stream, settings_.window, arguments, {{settings_.floor}});
  }

 private:
  const moving_zscore_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_moving_zscore_cuda(const operation_request& request) {
  return std::make_unique<moving_zscore_cuda>(parse_moving_zscore(request.settings, request.inputs[0]));
}

}  // namespace penstock
