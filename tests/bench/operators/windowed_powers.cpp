#include "tests/bench/operators/windowed_powers.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <iterator>

namespace penstock::bench {

std::vector<float> hann_powers(const std::vector<float>& spectra, std::int64_t length, bool complex) {
  const std::int64_t bins = complex ? length : length / 2 + 1;
  const auto rows = static_cast<std::int64_t>(spectra.size()) / (2 * bins);
  std::vector<float> powers;
  powers.reserve(static_cast<std::size_t>(rows * bins));
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const of_row = spectra.data() + 2 * row * bins;
    const auto bin = [&](std::int64_t at) {
      const std::int64_t wrapped = (at + length) % length;
      const std::int64_t held = wrapped < bins ? wrapped : length - wrapped;
      const std::complex<float> value(of_row[2 * held], of_row[2 * held + 1]);
      return wrapped < bins ? value : std::conj(value);
    };
    for (std::int64_t at = 0; at < bins; ++at) {
      powers.push_back(std::norm(0.5F * bin(at) - 0.25F * (bin(at - 1) + bin(at + 1))));
    }
  }
  return powers;
}

std::vector<float> powers_of_decibels(const std::vector<float>& decibels, std::int64_t length) {
  const float full_scale = static_cast<float>(length) * static_cast<float>(length) / 4;
  std::vector<float> powers;
  powers.reserve(decibels.size());
  std::transform(decibels.begin(), decibels.end(), std::back_inserter(powers),
                 [=](float level) { return full_scale * std::pow(10.0F, level / 10); });
  return powers;
}

}  // namespace penstock::bench
