#include "kernels/catalogue_cuda.hpp"

#include <utility>

#include "kernels/accumulate.hpp"
#include "kernels/affine.hpp"
#include "kernels/concat.hpp"
#include "kernels/convert.hpp"
#include "kernels/correlate.hpp"
#include "kernels/detect.hpp"
#include "kernels/fir.hpp"
#include "kernels/fold.hpp"
#include "kernels/histogram.hpp"
#include "kernels/iir.hpp"
#include "kernels/magnitude.hpp"
#include "kernels/moments.hpp"
#include "kernels/moving_zscore.hpp"
#include "kernels/power_spectrum.hpp"
#include "kernels/reframe.hpp"
#include "kernels/window.hpp"

namespace penstock {

make_operation find_cuda_operation(std::string_view name) noexcept {
  static constexpr std::pair<std::string_view, make_operation> catalogue[] = {
      {"accumulate", &make_accumulate_cuda},
      {"add", &make_add_cuda},
      {"affine", &make_affine_cuda},
      {"concat", &make_concat_cuda},
      {"convert", &make_convert_cuda},
      {"correlate", &make_correlate_cuda},
      {"detect", &make_detect_cuda},
      {"fir", &make_fir_cuda},
      {"histogram", &make_histogram_cuda},
      {"iir", &make_iir_cuda},
      {"magnitude", &make_magnitude_cuda},
      {"moments", &make_moments_cuda},
      {"moving_zscore", &make_moving_zscore_cuda},
      {"multiply", &make_multiply_cuda},
      {"power_spectrum", &make_power_spectrum_cuda},
      {"reframe", &make_reframe_cuda},
      {"window", &make_window_cuda},
  };
  for (const auto& [known, make] : catalogue) {
    if (known == name) {
      return make;
    }
  }
  return nullptr;
}

}  // namespace penstock
