#include <utility>

#include "kernels/launch.cuh"
#include "kernels/row_window.cuh"
#include "kernels/window.hpp"

namespace penstock {
namespace {

class window_cuda final : public operation {
 public:
  explicit window_cuda(window_settings settings)
      : settings_{std::move(settings)},
        weights_{std::span<const float>(settings_.coefficients)},
        multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return is_complex(settings_.input.type) ? weigh<float2>(stream, arguments) : weigh<float>(stream, arguments);
  }

 private:
  template <class T>
  fault weigh(void* stream, const operation_arguments& arguments) noexcept {
    return enqueue_weigh_rows(stream, multiprocessors_, static_cast<const T*>(arguments.inputs[0]), weights_.data(),
                              static_cast<T*>(arguments.output), settings_.rows.max_length(),
                              settings_.rows.count(arguments.extent));
  }

  const window_settings settings_;
  const device_array<float> weights_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_window_cuda(const operation_request& request) {
  return std::make_unique<window_cuda>(parse_window(request.settings, request.inputs[0]));
}

}  // namespace penstock
