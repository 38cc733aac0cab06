#pragma once

#include <cstdint>
#include <vector>

namespace penstock::bench {

/// The power spectrum that rows have under a Hann window, from what a bare transform makes of them without one: the
/// window's own spectrum has three lines, so that each bin is half of itself less a quarter of either neighbour.
/// `spectra` has (re, im) pairs: `length` bins a row, or length / 2 + 1 of a real one (`complex` is false).
[[nodiscard]] std::vector<float> hann_powers(const std::vector<float>& spectra, std::int64_t length, bool complex);

/// Powers from decibels beside a full-scale tone under that window: docs/operators.md, power_spectrum.
[[nodiscard]] std::vector<float> powers_of_decibels(const std::vector<float>& decibels, std::int64_t length);

}  // namespace penstock::bench
