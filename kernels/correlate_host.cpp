#include "kernels/correlate.hpp"

#include <cstdint>
#include <utility>

namespace penstock {
namespace {

/// Terms of a sum above which "auto" transforms. Measured on one core with AVX2, rows of 1024 and of 65536 samples: the
/// sum and the transforms take as long at 32 … 48 terms that are real, and at 8 … 10 that are complex.
constexpr std::int64_t most_direct_terms = 32;
constexpr std::int64_t most_direct_complex_terms = 8;

bool is_short(const correlate_settings& settings) noexcept {
  return settings.terms() <= (settings.complex_output() ? most_direct_complex_terms : most_direct_terms);
}

}  // namespace

std::unique_ptr<operation> make_correlate_host(const operation_request& request) {
  correlate_settings settings = parse_correlate(request.settings, request.inputs);
  const bool direct =
      settings.method == sum_method::direct || (settings.method == sum_method::automatic && is_short(settings));
  return direct ? make_direct_correlate_host(std::move(settings)) : make_fft_correlate_host(std::move(settings));
}

}  // namespace penstock
