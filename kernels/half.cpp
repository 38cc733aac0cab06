#include "kernels/half.hpp"

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// out[i] = in[i], rounded to Factor and then to Out.
template <class Factor, class In, class Out>
PENSTOCK_VECTOR_CLONES void change(const In* __restrict in, Out* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = stored<Out>(to_float(stored<Factor>(to_float(in[i]))));
  }
}

template <class Factor>
void round_to(element_type type, const void* in, float* out, std::size_t count) noexcept {
  switch (type) {
    case element_type::f16:
      return change<Factor>(static_cast<const half_bits*>(in), out, count);
    case element_type::bf16:
      return change<Factor>(static_cast<const brain_bits*>(in), out, count);
    default:
      return change<Factor>(static_cast<const float*>(in), out, count);
  }
}

}  // namespace

void round_factors(element_type factor, element_type type, const void* in, float* out, std::size_t count) noexcept {
  switch (factor) {
    case element_type::f16:
      return round_to<half_bits>(type, in, out, count);
    case element_type::bf16:
      return round_to<brain_bits>(type, in, out, count);
    default:
      return round_to<float>(type, in, out, count);
  }
}

void store_rounded(element_type type, const float* in, void* out, std::size_t count) noexcept {
  if (type == element_type::f16) {
    change<float>(in, static_cast<half_bits*>(out), count);
  } else {
    change<float>(in, static_cast<brain_bits*>(out), count);
  }
}

}  // namespace penstock
