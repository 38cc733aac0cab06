#include "daemon/pipeline/plan_step.hpp"

namespace penstock {

std::vector<plan_step> steps_of(const plan& what) {
  std::vector<plan_step> steps{{.name = "copy in", .op = "", .reads = {}, .writes = 0}};
  for (const plan_stage& stage : what.stages) {
    steps.push_back(
        {.name = stage.name, .op = stage.op, .reads = stage.inputs, .writes = static_cast<std::int64_t>(stage.output)});
  }
  for (const plan_output& output : what.outputs) {
    steps.push_back({.name = "copy out", .op = "", .reads = {output.buffer}, .writes = -1});
  }
  return steps;
}

std::vector<std::size_t> recorders_of(const plan& what) {
  std::vector<std::size_t> recorders(what.order.events, 0);
  for (std::size_t step = 0; step < what.order.steps.size(); ++step) {
    if (const std::int32_t event = what.order.steps[step].event; event >= 0) {
      recorders[static_cast<std::size_t>(event)] = step;
    }
  }
  return recorders;
}

}  // namespace penstock
