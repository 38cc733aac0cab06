#include <cstdint>
#include <utility>

#include "kernels/moving_zscore.hpp"
#include "kernels/sliding_window.cuh"

namespace penstock {
namespace {

/// Count, mean and sum of squared differences to it.
struct step_moments {
  double mean;
  double squares;
  int count;
};

struct zscore_fold {
  using total = step_moments;

  double floor;

  static __device__ float absent() { return 0.0F; }
  static __device__ total none() { return {0.0, 0.0, 0}; }
  static __device__ total of(float value) { return {static_cast<double>(value), 0.0, 1}; }

  /// Two passes over the values.
  static __device__ total of(const float (&values)[sliding_steps], int count) {
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < sliding_steps; ++i) {
      sum += i < count ? static_cast<double>(values[i]) : 0.0;
    }
    total whole{sum / count, 0.0, count};
#pragma unroll
    for (int i = 0; i < sliding_steps; ++i) {
      const double difference = i < count ? static_cast<double>(values[i]) - whole.mean : 0.0;
      whole.squares = fma(difference, difference, whole.squares);
    }
    return whole;
  }

  static __device__ total joined(const total& a, const total& b) {
    if (a.count == 0) {
      return b;
    }
    if (b.count == 0) {
      return a;
    }
    const int count = a.count + b.count;
    const double share = static_cast<double>(b.count) / static_cast<double>(count);
    const double difference = b.mean - a.mean;
    const double squares = difference * difference * share * static_cast<double>(a.count);
    return {fma(difference, share, a.mean), a.squares + b.squares + squares, count};
  }

  template <class Move>
  static __device__ total moved(const total& from, Move move) {
    return {move(from.mean), move(from.squares), move(from.count)};
  }

  /// A NaN or an infinity in the window makes its moments NaN or infinite, and the score NaN.
  [[nodiscard]] __device__ float score(const total& before, float current, std::int64_t position,
                                       std::int64_t window) const {
    if (position < window) {
      return 0.0F;
    }
    const double deviation = sqrt(before.squares / static_cast<double>(before.count));
    const double scale = deviation < floor ? floor : deviation;
    return static_cast<float>((static_cast<double>(current) - before.mean) / scale);
  }
};

struct score_fold : zscore_fold {
  __device__ float result(const total& before, float current, std::int64_t position, std::int64_t window) const {
    return score(before, current, position, window);
  }
};

struct flag_fold : zscore_fold {
  double threshold;

  __device__ std::uint8_t result(const total& before, float current, std::int64_t position, std::int64_t window) const {
    return fabs(static_cast<double>(score(before, current, position, window))) > threshold ? 1 : 0;
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
