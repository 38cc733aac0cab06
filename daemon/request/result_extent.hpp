#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/pipeline/plan.hpp"

namespace penstock {

/// What one request gets of one output.
struct result_extent {
  std::int64_t leading = 0;  ///< of each frame; it can be less than the most, and 0
  std::size_t bytes = 0;     ///< of all frames, which lie one behind the other
};

/// `steps_before`: of the pipeline's input, that the request's session had before it; `leading`: of its input frames.
/// Requests of several frames have frames that all give equally much (plan::period).
[[nodiscard]] inline result_extent extent_of(const plan_buffer& output, std::int64_t steps_before, std::int64_t leading,
                                             std::uint32_t frames) noexcept {
  std::int64_t each = leading;
  if (output.rate.ragged()) {
    const std::int64_t after = steps_before + leading * frames;
    each = (output.rate.total(after) - output.rate.total(steps_before)) / frames;
  }
  return {each, output.spec.bytes(each) * frames};
}

}  // namespace penstock
