#include "tests/bench/floors/time_limit.hpp"

#include <utility>

#include <fmt/format.h>

namespace penstock::bench {

time_limit::time_limit(seconds most, std::function<clock::time_point()> now)
    : most_(most), now_(std::move(now)), begin_(now_()) {}

std::string time_limit::text() const {
  if (!passed()) {
    return fmt::format("{:.0f} s of at most {:.0f} s", taken().count(), most_.count());
  }
  return fmt::format(
      "it has taken {:.1f} s, and {:.0f} s are the most: something waits that should not, the machine is too busy to "
      "measure on, or the gate has grown",
      taken().count(), most_.count());
}

}  // namespace penstock::bench
