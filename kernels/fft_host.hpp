#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

struct fftwf_plan_s;

namespace penstock {

/// A DFT of rows in single precision, unnormalised, by FFTW.
///
/// Thread: any thread creates and destroys it; this class serializes access to FFTW's planner. Any number of threads
/// call `execute` at once.
class fft_plan {
 public:
  /// Alignment of the arrays that `execute` takes, in bytes.
  static constexpr std::size_t alignment = 64;

  /// Complex to complex in both directions, real to its length/2 + 1 bins, and these to real.
  enum class kind { complex, complex_inverse, real, real_inverse };
  /// What `execute` does with its input.
  enum class input { overwritten, kept };

  /// `length` counts the complex or real elements of a row, not the bins. Element i of row r, of the input and of the
  /// output, lies at i · `rows` + r. Measures for at most one second. Throws std::runtime_error if FFTW has no plan.
  fft_plan(std::int64_t length, kind transform, input after = input::overwritten, std::int64_t rows = 1);
  ~fft_plan();
  fft_plan(const fft_plan&) = delete;
  fft_plan& operator=(const fft_plan&) = delete;

  /// `floats` rounded up to a multiple of `alignment`, so that what follows is aligned.
  [[nodiscard]] static constexpr std::size_t aligned_space(std::size_t floats) noexcept {
    constexpr std::size_t step = alignment / sizeof(float);
    return (floats + step - 1) / step * step;
  }
  /// Whether `execute` takes an array where it lies, though it is not aligned to `alignment`.
  [[nodiscard]] static bool takes(const float* array) noexcept;
  /// Complex numbers lie as re, im, re, ... Both arrays are aligned and do not overlap.
  void execute(float* in, float* out) const noexcept;
  /// For an input that is kept.
  void execute(const float* in, float* out) const noexcept { execute(const_cast<float*>(in), out); }

 private:
  fftwf_plan_s* plan_ = nullptr;
  kind kind_;
};

/// Blocks of `length` samples against a template of `taps` through the discrete Fourier transform, on the host:
///   z[i] = sum_n x[i + n] · conj(h[n]),  x = 0 from `length` on
/// of real samples and a real template, or of complex ones. `length` is even.
///
/// A result depends on its own span, x[i] … x[i + taps − 1], alone: it is within 1e-6 of sum |h| times the span's peak
/// whatever else the block holds, and a NaN or an infinity reaches the spans that have it. A transform rounds by about
/// 1e-7 of the block's level, so it serves the results whose span has a peak near that level, which in most blocks are
/// all. For the others, samples above the highest peak of their spans, which none of them sees, are set to zero, and
/// the rest is transformed again; few results are summed in float64 instead. Samples and templates near the ends of
/// f32's range are scaled by a power of two.
///
/// Threads: any number at once, each with arrays of its own. All arrays are aligned to fft_plan::alignment.
class fft_correlation {
 public:
  fft_correlation(std::int64_t length, std::int64_t taps, bool complex_samples);

  /// Floats of an array of samples, of a prepared template, and of the scratch of `run`; rounded up to keep the next
  /// array aligned.
  [[nodiscard]] std::size_t sample_space() const noexcept;
  [[nodiscard]] std::size_t template_space() const noexcept;
  [[nodiscard]] std::size_t scratch_space() const noexcept;

  /// Prepares the template, which is continued by zeros, for `run`. Overwrites the samples.
  void set_template(float* samples, float* prepared) const noexcept;
  /// Every `every`-th of the first `count` results.
  struct result_range {
    std::size_t count;
    std::size_t every;
  };
  /// Several templates, prepared template_space() apart, whose results lie `out_step` floats apart.
  struct template_bank {
    const float* prepared;
    std::size_t count;
    std::size_t out_step;
  };
  /// Computes results z, each at its index; the elements between them are overwritten too. Overwrites the samples.
  void run(float* samples, float* scratch, const float* prepared, float* out, std::size_t count,
           std::size_t every = 1) const noexcept {
    run_bank(samples, scratch, {prepared, 1, 0}, out, {count, every});
  }
  /// The same of each template; the samples are transformed once.
  void run_bank(float* samples, float* scratch, const template_bank& bank, float* out,
                const result_range& range) const noexcept;

 private:
  /// Contents of a prepared template after its spectrum.
  struct template_parts {
    const float* spectrum;
    const float* direct;  ///< the taps as they came
    const float* turned;  ///< of complex samples: (−im, re) of each
    int exponent;         ///< the spectrum is of the taps times 2 to its negative
    bool finite;
    bool real;
  };
  struct scratch_parts {
    float* work;      ///< of an array of samples
    float* spectrum;  ///< and its transform
    float* results;
    std::uint32_t* peaks;  ///< of each result's span
  };
  /// Levels of a block, as bits of magnitudes, which sort like the magnitudes.
  struct block_level {
    std::uint32_t lowest;   ///< peak of a piece that the results see
    std::uint32_t highest;  ///< of any
    double level;           ///< root of the mean square of the pieces' peaks
  };

  [[nodiscard]] std::size_t bins() const noexcept { return complex_ ? length_ : length_ / 2 + 1; }
  [[nodiscard]] std::size_t parts() const noexcept { return complex_ ? 2 : 1; }
  [[nodiscard]] std::size_t spectrum_space() const noexcept;
  [[nodiscard]] template_parts parts_of(const float* prepared) const noexcept;
  [[nodiscard]] bool sums_are_cheap(std::size_t results) const noexcept;
  [[nodiscard]] block_level level_of(const float* samples, std::size_t seen, std::uint32_t* pieces) const noexcept;
  void find_peaks(const float* samples, std::uint32_t* magnitudes, std::uint32_t* peaks,
                  std::size_t count) const noexcept;
  /// From the samples' spectrum to `count` results; `product` and `back` are overwritten, and `back` may be the
  /// spectrum.
  void finish(const float* spectrum, const float* prepared, float* product, float* back, float* out,
              std::size_t count) const noexcept;
  void run_by_level(const float* samples, const scratch_parts& scratch, const template_parts& filter, float* out,
                    const result_range& range) const noexcept;
  void sum(const float* samples, const template_parts& filter, std::size_t index, float* out) const noexcept;

  std::size_t length_;
  std::size_t taps_;  ///< those that can meet a sample of a block
  bool complex_;
  std::size_t piece_;  ///< floats; each span holds a whole one
  fft_plan transform_;
};

/// Owns aligned, zeroed floats.
class aligned_floats {
 public:
  explicit aligned_floats(std::size_t count);

  [[nodiscard]] float* data() noexcept { return pieces_.empty() ? nullptr : pieces_.front().values; }
  [[nodiscard]] const float* data() const noexcept { return pieces_.empty() ? nullptr : pieces_.front().values; }

 private:
  struct alignas(fft_plan::alignment) piece {
    float values[fft_plan::alignment / sizeof(float)];
  };
  std::vector<piece> pieces_;
};

}  // namespace penstock
