#include "daemon/pipeline/plan_printer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/pipeline/check.hpp"
#include "tests/daemon/pipeline/declarations.hpp"
#include "tests/daemon/pipeline/fake_device.hpp"

namespace penstock {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class plan_printer : public testing::Test {
 protected:
  plan compile(const pipeline_declaration& declared) { return compile_plan(check_pipeline(declared), 0, device_); }

  /// input → sound → {half, rest} → sum, which is the output and takes some scratch.
  plan diamond() {
    device_.scratch["add"] = 5000;
    pipeline_declaration declared = pipeline({convert("sound", {}), affine("half", {"sound"}),
                                              affine("rest", {"sound"}), stage("sum", "add", {"half", "rest"})});
    declared.batch.max_frames = 16;
    return compile(declared);
  }

  static stage_declaration affine(std::string name, std::vector<std::string> from) {
    return stage(std::move(name), "affine", std::move(from), {{"a", 0.5}, {"b", 0.0}});
  }

  fake_device device_;
};

TEST_F(plan_printer, ShowsADiamondStepByStepAndBufferByBuffer) {
  EXPECT_EQ(print_plan(diamond(), "fake device, for a test"), R"(pipeline test
  device    fake device, for a test
  input     i16[1024]
  batch     up to 16 frames
  lanes     2 streams at once, 2 events
  sessions  no stage keeps state

  step  lanes  stage       operator  waits for     reads       writes           records
  ────  ─────  ──────────  ────────  ────────────  ──────────  ───────────────  ───────
     0  ●      copy in                                         input i16[1024]
     1  ●      sound       convert                 input       sound f32[1024]  e0
     2  ●      half        affine                  sound       half f32[1024]
     3  │ ●    rest        affine    e0 of step 1  sound       rest f32[1024]   e1
     4  ●      sum         add       e1 of step 3  half, rest  sum f32[1024]
     5  ●      copy out                            sum         reply
     6  ●      completion

  buffer           offset   bytes  steps  arena                             shares memory with
  ──────────────  ───────  ──────  ─────  ────────────────────────────────  ──────────────────
  input                 0  32,768    0–1  █████···························  half
  sound            65,536  65,536    1–3  ··········███████████···········  sum
  half                  0  65,536    2–4  ██████████······················  input
  rest            131,072  65,536    3–4  ·····················██████████·
  sum              65,536  65,536    4–5  ··········███████████···········  sound
  scratch of sum  196,608   5,000      4  ·······························█

  arena     201,728 bytes (197.0 KiB) a slot; without sharing 300,032 bytes (293.0 KiB)
  pinned    32,768 bytes (32.0 KiB) in, 65,536 bytes (64.0 KiB) out a slot
)");
}

TEST_F(plan_printer, ShowsWhatASessionKeeps) {
  device_.state = {{"fir", 1000}, {"accumulate", 12288}};
  auto declared = pipeline({convert("sound", {}), stage("low", "fir", {}, {{"taps", std::vector<double>{0.5, 0.5}}}),
                            stage("mean", "accumulate", {}, {{"frames", std::int64_t{4}}})});
  const std::string text = print_plan(compile(declared), "fake device");
  EXPECT_THAT(text, HasSubstr("\n  sessions  state is kept by low, mean\n"));
  EXPECT_THAT(text, HasSubstr("\n  session frames  2,097,152     16,384    0–3  "));
  EXPECT_THAT(text, HasSubstr(R"(
  state of  offset   bytes  goes along
  ────────  ──────  ──────  ──────────
  low            0   1,000  rows
  mean       1,024  12,288  frames

)"));
  EXPECT_THAT(text, EndsWith("\n  state     26,624 bytes (26.0 KiB) a session, in two halves\n"));
}

TEST_F(plan_printer, NamesTheAxisOfEachStageThatHasOne) {
  const auto declared =
      pipeline({convert("sound", {}), stage("low", "fir", {}, {{"taps", std::vector<double>{0.5, 0.5}}}),
                stage("psd", "power_spectrum", {}, {{"axis", std::int64_t{-1}}})});
  const std::string text = print_plan(compile(declared), "fake device");
  EXPECT_THAT(text, HasSubstr("operator        axis      reads  writes"));
  EXPECT_THAT(text, HasSubstr("convert                   input  sound f32[1024]"));
  EXPECT_THAT(text, HasSubstr("fir             0 (1024)  sound  low f32[1024]"));
  EXPECT_THAT(text, HasSubstr("power_spectrum  0 (1024)  low    psd f32[513]"));
  EXPECT_THAT(print_plan_graph(compile(declared), ""), HasSubstr("low\\nfir\\naxis 0 (1024)\\nlane 0"));
}

TEST_F(plan_printer, NamesTheAxisOfEachStageAlongASession) {
  using value = std::vector<std::pair<std::string, parameters::value>>;
  const std::vector<double> taps{0.5, 0.5};
  const std::vector<double> sections{1.0, 0.0, 0.0, 1.0, 0.5, 0.0};
  const std::int64_t eight = 8;
  const std::vector<std::pair<std::string, value>> all{
      {"accumulate", {{"frames", eight}, {"along", std::string("rows")}}},
      {"channelize", {{"channels", eight}}},
      {"clock", {{"omega", 4.0}}},
      {"detect", {{"high", 1.0}, {"along", std::string("session")}}},
      {"fir", {{"taps", taps}}},
      {"iir", {{"sections", sections}}},
      {"mix", {{"frequency", 0.1}}},
      {"moving_zscore", {{"window", eight}}},
      {"reframe", {{"length", eight}}},
      {"resample", {{"down", eight}}},
      {"stft", {{"length", eight}, {"hop", eight}}}};
  for (const auto& [op, settings] : all) {
    stage_declaration along = stage("y", op, {}, settings);
    along.settings.set("axis", std::int64_t{-1});
    pipeline_declaration declared = pipeline({along});
    declared.input = {element_type::f32, {3, 1024}, false};
    const std::string text = print_plan(compile(declared), "fake device");
    EXPECT_THAT(text, HasSubstr("1 (1024)")) << op;
    EXPECT_THAT(text, HasSubstr("input     f32[3, 1024], time along axis 1\n")) << op;
  }
  for (const auto& [op, settings] : std::vector<std::pair<std::string, value>>{
           {"demodulate", {{"kind", std::string("fm")}}}, {"istft", {{"half", false}, {"hop", eight}}}}) {
    stage_declaration along = stage("y", op, {}, settings);
    along.settings.set("axis", std::int64_t{1});
    pipeline_declaration declared = pipeline({along});
    declared.input = {element_type::cf32, {3, 64, 16}, false};
    EXPECT_THAT(print_plan(compile(declared), "fake device"), HasSubstr("1 (64)")) << op;
  }
}

TEST_F(plan_printer, DrawsADiamondForGraphviz) {
  const std::string lane_0 = "fillcolor=\"#cfe3f7\"];\n";
  const std::string lane_1 = "fillcolor=\"#fbe0bf\"];\n";
  const std::string text = print_plan_graph(diamond(), "a \"fake\" \\ device");
  EXPECT_THAT(text, StartsWith("digraph \"test\" {\n  graph [label=\"pipeline test, up to 16 frames a batch: a "
                               "\\\"fake\\\" \\\\ device\", "));
  EXPECT_THAT(text, EndsWith("  step0 [label=\"copy in\\nlane 0\", shape=ellipse, " + lane_0 +
                             "  step1 [label=\"sound\\nconvert\\nlane 0\", shape=box, " + lane_0 +
                             "  step2 [label=\"half\\naffine\\nlane 0\", shape=box, " + lane_0 +
                             "  step3 [label=\"rest\\naffine\\nlane 1\", shape=box, " + lane_1 +
                             "  step4 [label=\"sum\\nadd\\nlane 0\", shape=box, " + lane_0 +
                             "  step5 [label=\"copy out\\nlane 0\", shape=ellipse, " + lane_0 +
                             "  step6 [label=\"completion\\nlane 0\", shape=ellipse, peripheries=2, " + lane_0 +
                             R"(  step0 -> step1 [label="i16[1024]"];
  step1 -> step2 [label="f32[1024]"];
  step1 -> step3 [label="f32[1024]"];
  step2 -> step4 [label="f32[1024]"];
  step3 -> step4 [label="f32[1024]"];
  step4 -> step5 [label="f32[1024]"];
  step5 -> step6 [style=dotted, color="#808080"];
  step1 -> step3 [label="e0", style=dashed, color="#b03030", fontcolor="#b03030"];
  step3 -> step4 [label="e1", style=dashed, color="#b03030", fontcolor="#b03030"];
}
)"));
}

}  // namespace
}  // namespace penstock
