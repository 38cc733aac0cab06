#include "kernels/fft_host.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include <fftw3.h>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

constexpr double planning_seconds = 1.0;

/// FFTW's planner is global, and so is this lock.
std::mutex& planner_lock() {
  static std::mutex lock;
  return lock;
}

struct fftw_deleter {
  void operator()(float* memory) const noexcept { fftwf_free(memory); }
};

std::unique_ptr<float, fftw_deleter> allocate_complex(std::size_t count) {
  return std::unique_ptr<float, fftw_deleter>{static_cast<float*>(fftwf_malloc(count * sizeof(fftwf_complex)))};
}

fftwf_complex* as_complex(float* values) noexcept {
  return reinterpret_cast<fftwf_complex*>(values);
}

}  // namespace

fft_plan::fft_plan(std::int64_t length, kind transform, input after, std::int64_t rows) : kind_{transform} {
  const auto elements = static_cast<std::size_t>((length + 1) * rows);
  const auto in = allocate_complex(elements);
  const auto out = allocate_complex(elements);
  if (in == nullptr || out == nullptr) {
    throw std::runtime_error("no memory to plan a DFT of " + std::to_string(length));
  }
  const fftwf_iodim64 row{.n = length, .is = rows, .os = rows};
  const fftwf_iodim64 each{.n = rows, .is = 1, .os = 1};
  const unsigned flags = FFTW_MEASURE | (after == input::kept ? FFTW_PRESERVE_INPUT : FFTW_DESTROY_INPUT);
  const std::lock_guard hold{planner_lock()};
  fftwf_set_timelimit(planning_seconds);
  switch (transform) {
    case kind::complex:
    case kind::complex_inverse:
      plan_ = fftwf_plan_guru64_dft(1, &row, 1, &each, as_complex(in.get()), as_complex(out.get()),
                                    transform == kind::complex ? FFTW_FORWARD : FFTW_BACKWARD, flags);
      break;
    case kind::real:
      plan_ = fftwf_plan_guru64_dft_r2c(1, &row, 1, &each, in.get(), as_complex(out.get()), flags);
      break;
    case kind::real_inverse:
      plan_ = fftwf_plan_guru64_dft_c2r(1, &row, 1, &each, as_complex(in.get()), out.get(), flags);
      break;
  }
  if (plan_ == nullptr) {
    throw std::runtime_error("FFTW has no plan for a DFT of " + std::to_string(length));
  }
}

fft_plan::~fft_plan() {
  const std::lock_guard hold{planner_lock()};
  fftwf_destroy_plan(plan_);
}

bool fft_plan::takes(const float* array) noexcept {
  return fftwf_alignment_of(const_cast<float*>(array)) == 0;
}

void fft_plan::execute(float* in, float* out) const noexcept {
  switch (kind_) {
    case kind::complex:
    case kind::complex_inverse:
      return fftwf_execute_dft(plan_, as_complex(in), as_complex(out));
    case kind::real:
      return fftwf_execute_dft_r2c(plan_, in, as_complex(out));
    case kind::real_inverse:
      return fftwf_execute_dft_c2r(plan_, as_complex(in), out);
  }
}

namespace {

// Everything goes through forward transforms. Of complex rows, z = conj(F(conj Z)) / L. Of real rows, with the Hartley
// transform g[k] = Re Z[k] - Im Z[k] of a real z, z[i] = (Re G[i] - Im G[i]) / L, G = F(g) (R. N. Bracewell, J. Opt.
// Soc. Am. 73, 1983). The 1 / L stands in the template's spectrum.

/// If the peak of a span is at least 1/8 of the level of its block, the transform of the block gives its result
/// accurately enough: it rounds by about 1e-7 of the level.
constexpr double max_level_per_peak = 8.0;

constexpr std::uint32_t magnitude_bits = 0x7fffffffU;
constexpr std::uint32_t min_normal = 0x00800000U;
constexpr std::uint32_t infinity_bits = 0x7f800000U;
/// Samples are scaled if the exponent of their peak is beyond this, templates beyond the smaller limit.
constexpr int max_exponent = 30;
constexpr int max_template_exponent = 20;

[[gnu::always_inline]] inline std::uint32_t magnitude_of(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & magnitude_bits;
}

/// e of a magnitude in [2^(e-1), 2^e).
int exponent_of(std::uint32_t magnitude) noexcept {
  return magnitude < min_normal ? 0 : std::ilogb(std::bit_cast<float>(magnitude)) + 1;
}

PENSTOCK_VECTOR_CLONES void scale(float* values, std::size_t count, float factor) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] *= factor;
  }
}

/// Scales by a power of two that may not fit in f32; products may leave its range.
PENSTOCK_VECTOR_CLONES void scale_widely(float* values, std::size_t count, double factor) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<double>(values[i]) * factor);
  }
}

/// The largest magnitude of each piece.
PENSTOCK_VECTOR_CLONES void peaks_of_pieces(const float* __restrict values, std::size_t count, std::size_t piece,
                                            std::uint32_t* __restrict peaks) {
  for (std::size_t first = 0; first < count; first += piece) {
    const std::size_t end = first + piece < count ? first + piece : count;
    std::int32_t peak = 0;
#pragma omp simd reduction(max : peak)
    for (std::size_t i = first; i < end; ++i) {
      const std::int32_t magnitude = std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff;
      peak = magnitude > peak ? magnitude : peak;
    }
    *peaks++ = static_cast<std::uint32_t>(peak);
  }
}

PENSTOCK_VECTOR_CLONES void magnitudes_of(const float* __restrict values, std::size_t count, bool pairs,
                                          std::uint32_t* __restrict magnitudes) {
  if (pairs) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t re = std::bit_cast<std::uint32_t>(values[2 * i]) & 0x7fffffffU;
      const std::uint32_t im = std::bit_cast<std::uint32_t>(values[2 * i + 1]) & 0x7fffffffU;
      magnitudes[i] = re > im ? re : im;
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      magnitudes[i] = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU;
    }
  }
}

/// values[i] becomes the larger of values[i] and values[i + ahead].
PENSTOCK_VECTOR_CLONES void take_larger(std::uint32_t* values, std::size_t count, std::size_t ahead) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = values[i] > values[i + ahead] ? values[i] : values[i + ahead];
  }
}

/// Values above the ceiling become zero.
PENSTOCK_VECTOR_CLONES void keep_below(const float* __restrict values, std::size_t count, bool pairs,
                                       std::uint32_t ceiling, double factor, float* __restrict kept) {
  const auto most = static_cast<std::int32_t>(ceiling);
  if (pairs) {
    for (std::size_t i = 0; i < count; i += 2) {
      const bool low = (std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff) <= most &&
                       (std::bit_cast<std::int32_t>(values[i + 1]) & 0x7fffffff) <= most;
      kept[i] = low ? static_cast<float>(static_cast<double>(values[i]) * factor) : 0.0F;
      kept[i + 1] = low ? static_cast<float>(static_cast<double>(values[i + 1]) * factor) : 0.0F;
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      const bool low = (std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff) <= most;
      kept[i] = low ? static_cast<float>(static_cast<double>(values[i]) * factor) : 0.0F;
    }
  }
}

/// How many results have spans with such peaks.
struct span_counts {
  std::int32_t top = 0;       ///< the largest peak of the normal ones
  std::int32_t normal = 0;    ///< a normal number of at most `ceiling`
  std::int32_t tiny = 0;      ///< less than any normal number
  std::int32_t infinite = 0;  ///< infinite, or NaN
};

/// Of every `every`-th result. Peaks are magnitudes, which compare as signed numbers do.
[[gnu::always_inline]] inline span_counts count_each(const std::uint32_t* __restrict peaks, std::size_t count,
                                                     std::size_t every, std::uint32_t ceiling) noexcept {
  const auto least = static_cast<std::int32_t>(min_normal);
  const auto most = static_cast<std::int32_t>(ceiling);
  const auto beyond = static_cast<std::int32_t>(infinity_bits);
  std::int32_t top = 0;
  std::int32_t normal = 0;
  std::int32_t tiny = 0;
  std::int32_t infinite = 0;
#pragma omp simd reduction(max : top) reduction(+ : normal, tiny, infinite)
  for (std::size_t at = 0; at < count; at += every) {
    const auto peak = static_cast<std::int32_t>(peaks[at]);
    const bool is_normal = peak >= least && peak <= most;
    const std::int32_t here = is_normal ? peak : 0;
    top = here > top ? here : top;
    normal += is_normal ? 1 : 0;
    tiny += peak < least ? 1 : 0;
    infinite += peak >= beyond ? 1 : 0;
  }
  return {top, normal, tiny, infinite};
}

/// With a loop of its own for neighbours, which the compiler vectorises.
PENSTOCK_VECTOR_CLONES span_counts count_spans(const std::uint32_t* peaks, std::size_t count, std::size_t every,
                                               std::uint32_t ceiling) {
  return every == 1 ? count_each(peaks, count, 1, ceiling) : count_each(peaks, count, every, ceiling);
}

/// out[i] = results[i] · factor where the peak of its span lies from `floor` to `top`; of one or two parts.
PENSTOCK_VECTOR_CLONES void take_spans(const float* __restrict results, const std::uint32_t* __restrict peaks,
                                       std::size_t count, std::uint32_t floor, std::uint32_t top, double factor,
                                       std::size_t parts, float* __restrict out) {
  const auto least = static_cast<std::int32_t>(floor);
  const auto most = static_cast<std::int32_t>(top);
  if (parts == 1) {
    for (std::size_t at = 0; at < count; ++at) {
      const auto peak = static_cast<std::int32_t>(peaks[at]);
      const auto value = static_cast<float>(static_cast<double>(results[at]) * factor);
      out[at] = peak >= least && peak <= most ? value : out[at];
    }
    return;
  }
  for (std::size_t at = 0; at < count; ++at) {
    const auto peak = static_cast<std::int32_t>(peaks[at]);
    const bool its = peak >= least && peak <= most;
    const auto re = static_cast<float>(static_cast<double>(results[2 * at]) * factor);
    const auto im = static_cast<float>(static_cast<double>(results[2 * at + 1]) * factor);
    out[2 * at] = its ? re : out[2 * at];
    out[2 * at + 1] = its ? im : out[2 * at + 1];
  }
}

PENSTOCK_VECTOR_CLONES double dot(const float* __restrict x, const float* __restrict h, std::size_t count) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) {
    sum += static_cast<double>(x[i]) * static_cast<double>(h[i]);
  }
  return sum;
}

/// Dot product of every second float.
PENSTOCK_VECTOR_CLONES double dot_of_pairs(const float* __restrict x, const float* __restrict h, std::size_t count) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) {
    sum += static_cast<double>(x[2 * i]) * static_cast<double>(h[2 * i]);
  }
  return sum;
}

/// g of Z = X conj(H); `length` is even.
PENSTOCK_VECTOR_CLONES void multiply_real(const float* __restrict x, const float* __restrict h, float* __restrict g,
                                          std::size_t length) {
  const std::size_t half = length / 2;
  for (std::size_t k = 0; k <= half; ++k) {
    const float re = x[2 * k] * h[2 * k] + x[2 * k + 1] * h[2 * k + 1];
    const float im = x[2 * k + 1] * h[2 * k] - x[2 * k] * h[2 * k + 1];
    g[k] = re - im;
  }
  for (std::size_t k = 1; k < half; ++k) {
    const float re = x[2 * k] * h[2 * k] + x[2 * k + 1] * h[2 * k + 1];
    const float im = x[2 * k + 1] * h[2 * k] - x[2 * k] * h[2 * k + 1];
    g[length - k] = re + im;
  }
}

/// z from G, the first `count` of `length`.
PENSTOCK_VECTOR_CLONES void read_real(const float* __restrict spectrum, float* __restrict out, std::size_t length,
                                      std::size_t count) {
  const std::size_t direct = std::min(count, length / 2 + 1);
  for (std::size_t i = 0; i < direct; ++i) {
    out[i] = spectrum[2 * i] - spectrum[2 * i + 1];
  }
  for (std::size_t i = direct; i < count; ++i) {
    out[i] = spectrum[2 * (length - i)] + spectrum[2 * (length - i) + 1];
  }
}

/// conj(Z) = conj(X) H.
PENSTOCK_VECTOR_CLONES void multiply_complex(const float* __restrict x, const float* __restrict h,
                                             float* __restrict out, std::size_t length) {
  for (std::size_t k = 0; k < length; ++k) {
    out[2 * k] = x[2 * k] * h[2 * k] + x[2 * k + 1] * h[2 * k + 1];
    out[2 * k + 1] = x[2 * k] * h[2 * k + 1] - x[2 * k + 1] * h[2 * k];
  }
}

PENSTOCK_VECTOR_CLONES void read_conjugate(const float* __restrict in, float* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = in[2 * i];
    out[2 * i + 1] = -in[2 * i + 1];
  }
}

/// The largest power of two that is at most a quarter of a span, if that is worth a loop of its own.
std::size_t piece_for(std::size_t span) noexcept {
  return span >= 64 ? std::bit_floor(span / 4) : span >= 15 ? 8 : 1;
}

}  // namespace

fft_correlation::fft_correlation(std::int64_t length, std::int64_t taps, bool complex_samples)
    : length_{static_cast<std::size_t>(length)},
      taps_{static_cast<std::size_t>(std::min(taps, length))},
      complex_{complex_samples},
      piece_{piece_for(taps_ * parts())},
      transform_{length, complex_samples ? fft_plan::kind::complex : fft_plan::kind::real} {}

std::size_t fft_correlation::sample_space() const noexcept {
  return fft_plan::aligned_space(parts() * length_);
}

std::size_t fft_correlation::spectrum_space() const noexcept {
  return fft_plan::aligned_space(2 * bins());
}

std::size_t fft_correlation::template_space() const noexcept {
  return spectrum_space() + parts() * fft_plan::aligned_space(parts() * taps_) + fft_plan::aligned_space(3);
}

std::size_t fft_correlation::scratch_space() const noexcept {
  return 2 * sample_space() + spectrum_space() + fft_plan::aligned_space(length_);
}

fft_correlation::template_parts fft_correlation::parts_of(const float* prepared) const noexcept {
  const float* const direct = prepared + spectrum_space();
  const std::size_t space = fft_plan::aligned_space(parts() * taps_);
  const float* const facts = direct + parts() * space;
  return {prepared, direct, direct + space, static_cast<int>(facts[0]), facts[1] != 0.0F, facts[2] != 0.0F};
}

void fft_correlation::set_template(float* samples, float* prepared) const noexcept {
  const std::size_t values = parts() * taps_;
  float* const direct = prepared + spectrum_space();
  float* const turned = direct + fft_plan::aligned_space(values);
  float* const facts = direct + parts() * fft_plan::aligned_space(values);
  std::copy_n(samples, values, direct);
  std::uint32_t peak = 0;
  bool real = true;
  for (std::size_t i = 0; i < values; ++i) {
    peak = std::max(peak, magnitude_of(direct[i]));
    real = real && (!complex_ || i % 2 == 0 || direct[i] == 0.0F);
  }
  for (std::size_t i = 0; complex_ && i < values; i += 2) {
    turned[i] = -direct[i + 1];
    turned[i + 1] = direct[i];
  }
  const bool finite = peak < infinity_bits;
  const int own = finite ? exponent_of(peak) : 0;
  const int exponent = std::abs(own) > max_template_exponent ? own : 0;
  facts[0] = static_cast<float>(exponent);
  facts[1] = finite ? 1.0F : 0.0F;
  facts[2] = real ? 1.0F : 0.0F;
  if (exponent != 0) {
    scale_widely(samples, values, std::ldexp(1.0, -exponent));
  }
  transform_.execute(samples, prepared);
  scale(prepared, 2 * bins(), 1.0F / static_cast<float>(length_));
}

/// True if summing so many results in float64 takes no longer than two transforms.
bool fft_correlation::sums_are_cheap(std::size_t results) const noexcept {
  const auto length = static_cast<double>(length_);
  return static_cast<double>(results) * static_cast<double>(taps_ * parts()) <= 0.5 * length * std::log2(length);
}

fft_correlation::block_level fft_correlation::level_of(const float* samples, std::size_t seen,
                                                       std::uint32_t* pieces) const noexcept {
  const std::size_t values = parts() * length_;
  peaks_of_pieces(samples, values, piece_, pieces);
  const std::size_t count = (values + piece_ - 1) / piece_;
  const std::size_t whole = std::min(parts() * seen, values) / piece_;
  block_level found{infinity_bits, 0, 0.0};
  double squares = 0.0;
  for (std::size_t at = 0; at < count; ++at) {
    found.lowest = at < whole ? std::min(found.lowest, pieces[at]) : found.lowest;
    found.highest = std::max(found.highest, pieces[at]);
    const auto peak = static_cast<double>(std::bit_cast<float>(pieces[at]));
    squares += peak * peak;
  }
  found.level = std::sqrt(squares / static_cast<double>(count));
  return found;
}

void fft_correlation::find_peaks(const float* samples, std::uint32_t* magnitudes, std::uint32_t* peaks,
                                 std::size_t count) const noexcept {
  magnitudes_of(samples, length_, complex_, magnitudes);
  std::size_t width = 1;
  for (; 2 * width <= taps_; width *= 2) {
    take_larger(magnitudes, length_ - width, width);
  }
  // Two such widths cover a span; samples after the block are zero.
  const std::size_t rest = taps_ - width;
  for (std::size_t i = 0; i < count; ++i) {
    peaks[i] = i + rest < length_ ? std::max(magnitudes[i], magnitudes[i + rest]) : magnitudes[i];
  }
}

void fft_correlation::finish(const float* spectrum, const float* prepared, float* product, float* back, float* out,
                             std::size_t count) const noexcept {
  if (complex_) {
    multiply_complex(spectrum, prepared, product, length_);
    transform_.execute(product, back);
    read_conjugate(back, out, count);
  } else {
    multiply_real(spectrum, prepared, product, length_);
    transform_.execute(product, back);
    read_real(back, out, length_, count);
  }
}

void fft_correlation::run_bank(float* samples, float* scratch, const template_bank& bank, float* out,
                               const result_range& range) const noexcept {
  const bool by_sums = sums_are_cheap((range.count + range.every - 1) / range.every);
  // Calls compute(template, its results) for the templates that are finite.
  const auto visit = [&](auto&& compute) {
    for (std::size_t each = 0; each < bank.count; ++each) {
      const template_parts filter = parts_of(bank.prepared + each * template_space());
      if (filter.finite && !by_sums) {
        compute(filter, out + each * bank.out_step);
      }
    }
  };
  for (std::size_t each = 0; each < bank.count; ++each) {
    const template_parts filter = parts_of(bank.prepared + each * template_space());
    for (std::size_t at = 0; at < range.count && (by_sums || !filter.finite); at += range.every) {
      sum(samples, filter, at, out + each * bank.out_step + at * parts());
    }
  }
  if (by_sums) {
    return;
  }
  const scratch_parts memory{scratch, scratch + sample_space(), scratch + sample_space() + spectrum_space(),
                             reinterpret_cast<std::uint32_t*>(scratch + 2 * sample_space() + spectrum_space())};
  const block_level block =
      level_of(samples, range.count - 1 + taps_, reinterpret_cast<std::uint32_t*>(memory.results));
  const auto lowest = static_cast<double>(std::bit_cast<float>(block.lowest));
  if (block.highest >= infinity_bits || !(lowest * max_level_per_peak >= block.level)) {
    visit([&](const template_parts& filter, float* results) { run_by_level(samples, memory, filter, results, range); });
    return;
  }
  const int own = exponent_of(block.highest);
  const int exponent = std::abs(own) > max_exponent ? own : 0;
  if (exponent != 0) {
    scale_widely(samples, parts() * length_, std::ldexp(1.0, -exponent));
  }
  transform_.execute(samples, memory.spectrum);
  // A further template needs the spectrum still; behind the results the peaks are free too, which gives room for one.
  float* const back = bank.count == 1 ? memory.spectrum : memory.results;
  visit([&](const template_parts& filter, float* results) {
    finish(memory.spectrum, filter.spectrum, samples, back, results, range.count);
    if (exponent + filter.exponent != 0) {
      scale_widely(results, parts() * range.count, std::ldexp(1.0, exponent + filter.exponent));
    }
  });
}

void fft_correlation::run_by_level(const float* samples, const scratch_parts& scratch, const template_parts& filter,
                                   float* out, const result_range& range) const noexcept {
  find_peaks(samples, reinterpret_cast<std::uint32_t*>(scratch.work), scratch.peaks, range.count);
  // Calls compute(at) for the results whose spans have peaks in this range.
  const auto visit = [&](std::uint32_t least, std::uint32_t most, auto&& compute) {
    for (std::size_t at = 0; at < range.count; at += range.every) {
      if (scratch.peaks[at] >= least && scratch.peaks[at] <= most) {
        compute(at);
      }
    }
  };
  const auto sum_those = [&](std::uint32_t least, std::uint32_t most) {
    visit(least, most, [&](std::size_t at) { sum(samples, filter, at, out + at * parts()); });
  };
  span_counts found = count_spans(scratch.peaks, range.count, range.every, infinity_bits - 1);
  if (found.infinite > 0) {
    sum_those(infinity_bits, magnitude_bits);
  }
  if (found.tiny > 0) {
    visit(0, min_normal - 1, [&](std::size_t at) { std::fill_n(out + at * parts(), parts(), 0.0F); });
  }
  while (found.normal > 0) {
    const auto top = static_cast<std::uint32_t>(found.top);
    if (sums_are_cheap(static_cast<std::size_t>(found.normal))) {
      sum_those(min_normal, top);
      return;
    }
    const int exponent = exponent_of(top);
    keep_below(samples, parts() * length_, complex_, top, std::ldexp(1.0, -exponent), scratch.work);
    const block_level kept = level_of(scratch.work, length_, reinterpret_cast<std::uint32_t*>(scratch.results));
    const auto least = static_cast<float>(std::ldexp(kept.level / max_level_per_peak, exponent));
    const std::uint32_t floor = std::clamp(std::bit_cast<std::uint32_t>(least), min_normal, top);
    const span_counts below = count_spans(scratch.peaks, range.count, range.every, floor - 1);
    if (sums_are_cheap(static_cast<std::size_t>(found.normal - below.normal))) {
      sum_those(floor, top);
    } else {
      transform_.execute(scratch.work, scratch.spectrum);
      finish(scratch.spectrum, filter.spectrum, scratch.work, scratch.spectrum, scratch.results, range.count);
      const double factor = std::ldexp(1.0, exponent + filter.exponent);
      take_spans(scratch.results, scratch.peaks, range.count, floor, top, factor, parts(), out);
    }
    found = below;
  }
}

void fft_correlation::sum(const float* samples, const template_parts& filter, std::size_t at,
                          float* out) const noexcept {
  const std::size_t terms = std::min(taps_, length_ - at);
  const float* const x = samples + at * parts();
  if (!complex_) {
    out[0] = static_cast<float>(dot(x, filter.direct, terms));
  } else if (filter.real) {
    out[0] = static_cast<float>(dot_of_pairs(x, filter.direct, terms));
    out[1] = static_cast<float>(dot_of_pairs(x + 1, filter.direct, terms));
  } else {
    out[0] = static_cast<float>(dot(x, filter.direct, 2 * terms));
    out[1] = static_cast<float>(dot(x, filter.turned, 2 * terms));
  }
}

aligned_floats::aligned_floats(std::size_t count)
    : pieces_((count * sizeof(float) + sizeof(piece) - 1) / sizeof(piece)) {}

}  // namespace penstock
