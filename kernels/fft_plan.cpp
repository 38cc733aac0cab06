#include "kernels/fft_plan.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include <fftw3.h>

namespace penstock {
namespace {

constexpr double planning_seconds = 1.0;

/// FFTW's planner is one for the whole process, and so is this.
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

fft_plan::fft_plan(std::int64_t length, bool complex_input) : complex_input_{complex_input} {
  const auto in = allocate_complex(static_cast<std::size_t>(length));
  const auto out = allocate_complex(static_cast<std::size_t>(length));
  if (in == nullptr || out == nullptr) {
    throw std::runtime_error("no memory to plan a DFT of " + std::to_string(length));
  }
  const fftwf_iodim64 row{.n = length, .is = 1, .os = 1};
  const unsigned flags = FFTW_MEASURE | FFTW_DESTROY_INPUT;
  const std::lock_guard hold{planner_lock()};
  fftwf_set_timelimit(planning_seconds);
  plan_ = complex_input ? fftwf_plan_guru64_dft(1, &row, 0, nullptr, as_complex(in.get()), as_complex(out.get()),
                                                FFTW_FORWARD, flags)
                        : fftwf_plan_guru64_dft_r2c(1, &row, 0, nullptr, in.get(), as_complex(out.get()), flags);
  if (plan_ == nullptr) {
    throw std::runtime_error("FFTW has no plan for a DFT of " + std::to_string(length));
  }
}

fft_plan::~fft_plan() {
  const std::lock_guard hold{planner_lock()};
  fftwf_destroy_plan(plan_);
}

void fft_plan::execute(float* in, float* out) const noexcept {
  if (complex_input_) {
    fftwf_execute_dft(plan_, as_complex(in), as_complex(out));
  } else {
    fftwf_execute_dft_r2c(plan_, in, as_complex(out));
  }
}

}  // namespace penstock
