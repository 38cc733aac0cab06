#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/pipeline/plan.hpp"

namespace penstock {

/// One node of plan::order as it is shown. Steps have the numbers of the nodes.
struct plan_step {
  std::string name;                ///< of the stage; "copy in", "copy out"
  std::string op;                  ///< empty for a copy
  std::vector<std::size_t> reads;  ///< indices of plan::buffers
  std::int64_t writes = -1;        ///< the same; −1 for a copy out
};

/// All steps, in the order in which they are enqueued.
[[nodiscard]] std::vector<plan_step> steps_of(const plan& what);
/// By event: the step that records it.
[[nodiscard]] std::vector<std::size_t> recorders_of(const plan& what);

}  // namespace penstock
