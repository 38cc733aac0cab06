#include "kernels/bch.hpp"

#include <cstdint>
#include <utility>

namespace penstock {
namespace {

template <class Number>
class bch_host final : public operation {
 public:
  explicit bch_host(bch_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::int64_t words = settings_.rows.count(arguments.extent) * settings_.words;
    const std::int64_t bits = settings_.code.row();
    const auto* in = static_cast<const Number*>(arguments.inputs[0]);
    auto* out = static_cast<Number*>(arguments.output);
    for (std::int64_t word = 0; word < words; ++word) {
      correct_word(settings_.code, settings_.patterns.data(), in + word * bits, out + word * (bits + 1));
    }
    return {};
  }

 private:
  const bch_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_bch_host(const operation_request& request) {
  bch_settings settings = parse_bch(request.settings, request.inputs[0]);
  if (request.inputs[0].type == element_type::f64) {
    return std::make_unique<bch_host<double>>(std::move(settings));
  }
  return std::make_unique<bch_host<float>>(std::move(settings));
}

}  // namespace penstock
