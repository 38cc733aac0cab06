#pragma once

#include <cstddef>
#include <cstdint>

struct fftwf_plan_s;

namespace penstock {

/// A forward DFT of one row in single precision, by FFTW.
///
/// Thread: created and destroyed anywhere, under a lock of this class's own, since FFTW's planner serves one thread at
/// a time; `execute` is called by any number of threads at once.
class fft_plan {
 public:
  /// Alignment of the arrays that `execute` takes, in bytes.
  static constexpr std::size_t alignment = 64;

  /// Complex to complex, or real to the half-complex length/2 + 1. Measures for at most a second; throws
  /// std::runtime_error when FFTW has no plan.
  fft_plan(std::int64_t length, bool complex_input);
  ~fft_plan();
  fft_plan(const fft_plan&) = delete;
  fft_plan& operator=(const fft_plan&) = delete;

  /// `in`: length floats, or twice as many for complex input (re, im, re, ...). `out`: complex, in the same layout.
  /// Both aligned; they don't overlap. `in` may be overwritten.
  void execute(float* in, float* out) const noexcept;

 private:
  fftwf_plan_s* plan_ = nullptr;
  bool complex_input_;
};

}  // namespace penstock
