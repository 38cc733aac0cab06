#include "kernels/catalogue_cuda.hpp"

#include <array>
#include <utility>

#include "kernels/affine.hpp"
#include "kernels/convert.hpp"
#include "kernels/histogram.hpp"
#include "kernels/magnitude.hpp"
#include "kernels/moments.hpp"
#include "kernels/power_spectrum.hpp"
#include "kernels/window.hpp"

namespace penstock {

make_operation find_cuda_operation(std::string_view name) noexcept {
  static constexpr std::array<std::pair<std::string_view, make_operation>, 7> catalogue = {{
      {"affine", &make_affine_cuda},
      {"convert", &make_convert_cuda},
      {"histogram", &make_histogram_cuda},
      {"magnitude", &make_magnitude_cuda},
      {"moments", &make_moments_cuda},
      {"power_spectrum", &make_power_spectrum_cuda},
      {"window", &make_window_cuda},
  }};
  for (const auto& [known, make] : catalogue) {
    if (known == name) {
      return make;
    }
  }
  return nullptr;
}

}  // namespace penstock
