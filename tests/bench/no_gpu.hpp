#pragma once

#include <stdexcept>

namespace penstock::bench {

/// A benchmark of bare CUDA was asked for where there is none. The program then exits with `exit_code`, which no other
/// failure gives.
struct no_gpu : std::runtime_error {
  using std::runtime_error::runtime_error;
  static constexpr int exit_code = 77;
};

}  // namespace penstock::bench
