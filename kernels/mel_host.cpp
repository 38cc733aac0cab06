#include "kernels/mel.hpp"

#include <cstdint>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

PENSTOCK_VECTOR_CLONES void sum_triangles(const float* __restrict bins, const mel_settings::triangle* triangles,
                                          std::int64_t count, const float* __restrict weights, float* __restrict out) {
  for (std::int64_t at = 0; at < count; ++at) {
    const mel_settings::triangle& each = triangles[at];
    const float* const from = bins + each.first;
    const float* const by = weights + each.offset;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int32_t bin = 0; bin < each.count; ++bin) {
      sum += static_cast<double>(by[bin]) * static_cast<double>(from[bin]);
    }
    out[at] = static_cast<float>(sum);
  }
}

class mel_host final : public operation {
 public:
  explicit mel_host(mel_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    const std::int64_t bins = settings_.input.shape.back();
    const std::int64_t count = settings_.output.shape.back();
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::int64_t row = 0; row < rows; ++row, in += bins, out += count) {
      sum_triangles(in, settings_.triangles.data(), count, settings_.weights.data(), out);
    }
    return {};
  }

 private:
  const mel_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_mel_host(const operation_request& request) {
  return std::make_unique<mel_host>(parse_mel(request.settings, request.inputs[0]));
}

}  // namespace penstock
