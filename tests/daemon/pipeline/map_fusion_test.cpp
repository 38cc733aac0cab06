#include "daemon/pipeline/map_fusion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/pipeline/check.hpp"
#include "kernels/map.hpp"
#include "tests/daemon/pipeline/declarations.hpp"

namespace penstock {
namespace {

stage_declaration map_stage(const std::string& name, const std::string& expression, std::vector<std::string> from,
                            const std::string& type = "f32") {
  auto output = std::make_shared<parameters>();
  output->set("dtype", type);
  stage_declaration made = stage(name, "map", std::move(from));
  made.settings.set("expr", expression);
  made.settings.set("output", std::shared_ptr<const parameters>(output));
  return made;
}

/// The stages that are left: "y of input", and what each took in.
std::vector<std::string> fused(std::vector<stage_declaration> stages, std::vector<std::string> outputs = {}) {
  pipeline_declaration declared = pipeline(std::move(stages));
  declared.outputs = std::move(outputs);
  std::vector<std::string> left;
  for (const stage_declaration& each : fuse_maps(check_pipeline(declared)).stages) {
    std::string text = each.name + " of";
    for (const std::string& source : each.from) {
      text += " " + source;
    }
    for (const std::string& inner : fused_stages(each.settings)) {
      text += " with " + inner;
    }
    left.push_back(text);
  }
  return left;
}

using stages_left = std::vector<std::string>;

TEST(MapFusion, MakesOneStageOfMapsInARow) {
  EXPECT_EQ(
      fused({map_stage("a", "x + 1", {"input"}), map_stage("b", "a * a", {"a"}), map_stage("c", "sqrt(b)", {"b"})}),
      (stages_left{"c of input with a with b"}));
  EXPECT_EQ(fused({map_stage("a", "x + 1", {"input"}), map_stage("b", "a * input", {"a", "input"})}),
            (stages_left{"b of input with a"}));
  EXPECT_EQ(fused({map_stage("a", "x + 1", {"input"}), map_stage("b", "x - 1", {"input"}),
                   map_stage("c", "a * b", {"a", "b"})}),
            (stages_left{"c of input with a with b"}));
}

TEST(MapFusion, LeavesAloneWhatOthersReadOrWhatIsRounded) {
  EXPECT_EQ(fused({map_stage("a", "x + 1", {"input"}), map_stage("b", "a * a", {"a"})}, {"a", "b"}),
            (stages_left{"a of input", "b of a"}));
  EXPECT_EQ(fused({map_stage("a", "x + 1", {"input"}), map_stage("b", "a * a", {"a"}), stage("s", "moments", {"a"})},
                  {"b", "s"}),
            (stages_left{"a of input", "b of a", "s of a"}));
  EXPECT_EQ(fused({map_stage("a", "x / 100", {"input"}, "i8"), map_stage("b", "a * a", {"a"})}),
            (stages_left{"a of input", "b of a"}));
  EXPECT_EQ(fused({map_stage("a", "x + 1", {"input"}), stage("s", "moments", {"a"}), map_stage("b", "s * s", {"s"})}),
            (stages_left{"a of input", "s of a", "b of s"}));
}

TEST(MapFusion, ComputesWhatItsPartsDo) {
  pipeline_declaration declared = fuse_maps(
      check_pipeline(pipeline({map_stage("a", "x * j", {"input"}, "cf32"), map_stage("b", "re(a) + im(a)", {"a"})})));
  const std::vector<tensor_spec> inputs{declared.input};
  const map_settings joined = parse_map(operator_settings(declared.stages.front()), inputs);
  parameters whole;
  whole.set("expr", std::string("re(x * j) + im(x * j)"));
  const map_settings written = parse_map(map_with_names(whole, {"input"}), inputs);
  ASSERT_EQ(joined.steps.size(), written.steps.size());
  for (std::size_t step = 0; step < joined.steps.size(); ++step) {
    EXPECT_EQ(joined.steps[step].operation, written.steps[step].operation) << step;
    EXPECT_EQ(joined.steps[step].from, written.steps[step].from) << step;
  }
}

TEST(MapFusion, ReadsNoMoreInputsThanAMapTakes) {
  std::vector<stage_declaration> stages;
  std::vector<std::string> left;
  for (const std::string name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    stages.push_back(stage(name, "convert", {"input"}));
    left.push_back(name);
  }
  stages.push_back(map_stage("first", "a + b + c + d + e + f + g + h", left));
  stages.push_back(map_stage("second", "first * input", {"first", "input"}));
  EXPECT_EQ(fused(stages).size(), 10U);
}

}  // namespace
}  // namespace penstock
