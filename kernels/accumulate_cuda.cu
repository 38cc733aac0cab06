#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/accumulate.hpp"
#include "kernels/sliding_window.cuh"

namespace penstock {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct mean_fold {
  using total = double;
  static constexpr bool pivoted = false;

  static __device__ float absent() { return 0.0F; }
  static __device__ total none() { return 0.0; }
  static __device__ total of(float value, float /*pivot*/) { return static_cast<double>(value); }
  static __device__ total joined(total a, total b) { return a + b; }
  template <class Move>
  static __device__ total moved(total value, Move move) {
    return move(value);
  }
  __device__ float result(const window_halves<mean_fold>& halves, float /*current*/, std::int64_t position,
                          std::int64_t window) const {
    return static_cast<float>(joined(halves.older, halves.newer) / static_cast<double>(min(position + 1, window)));
  }
};

/// A NaN on either side of a join stays.
struct peak_fold {
  using total = float;
  static constexpr bool pivoted = false;

  static __device__ float absent() { return -infinity; }
  static __device__ total none() { return absent(); }
  static __device__ total of(float value, float /*pivot*/) { return value; }
  static __device__ total joined(total a, total b) { return a > b || isnan(a) ? a : b; }
  template <class Move>
  static __device__ total moved(total value, Move move) {
    return move(value);
  }
  __device__ float result(const window_halves<peak_fold>& halves, float /*current*/, std::int64_t /*position*/,
                          std::int64_t /*window*/) const {
    return joined(halves.older, halves.newer);
  }
};

class accumulate_cuda final : public operation {
 public:
  explicit accumulate_cuda(accumulate_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.window.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return settings_.peak ? enqueue_sliding<peak_fold, float>(stream, settings_.window, arguments, {})
                          : enqueue_sliding<mean_fold, float>(stream, settings_.window, arguments, {});
  }

 private:
  const accumulate_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_accumulate_cuda(const operation_request& request) {
  return std::make_unique<accumulate_cuda>(parse_accumulate(request.settings, request.inputs[0]));
}

}  // namespace penstock
