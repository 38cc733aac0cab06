#include "kernels/plugin.hpp"

#include <cstring>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/plugin_library.hpp"
#include "tests/kernels/operator_sample.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// What the operator below is told to do, and what it saw.
struct script {
  ps_spec output{};
  std::vector<const char*> names{nullptr};  ///< of the outputs, which are all alike
  ps_needs needs{};
  std::uint32_t later_flags = 0;  ///< that make adds
  const char* refused_field = nullptr;
  std::vector<ps_spec> inputs;
  std::vector<std::string> seen;
  int drops = 0;
};
script* current = nullptr;

void see(const ps_params* values, const char* key) {
  double number = -1;
  std::int64_t whole = -1;
  std::uint64_t count = 0;
  std::string text = std::string(key) + " " + std::to_string(values->kind(values, key));
  text += values->number(values, key, &number) != 0 ? " number " + std::to_string(number) : "";
  text += values->integer(values, key, &whole) != 0 ? " integer " + std::to_string(whole) : "";
  for (std::uint32_t at = 0; values->text(values, key, at) != nullptr; ++at) {
    text += std::string(" text ") + values->text(values, key, at);
  }
  const double* const numbers = values->numbers(values, key, &count);
  for (std::uint64_t at = 0; at < count; ++at) {
    text += " " + std::to_string(numbers[at]);
  }
  current->seen.push_back(text);
}

std::int32_t infer(const ps_params* values, const ps_spec* in, std::uint32_t ins, ps_spec* out, std::uint32_t* outs,
                   ps_needs* needs, ps_error* error) {
  current->inputs.assign(in, in + ins);
  current->seen.clear();
  for (std::uint32_t at = 0; values->key(values, at) != nullptr; ++at) {
    see(values, values->key(values, at));
  }
  if (current->refused_field != nullptr) {
    return ps_fail(error, current->refused_field, "is not to its taste");
  }
  for (const char* const name : current->names) {
    out[*outs] = current->output.rank == 0 ? in[0] : current->output;
    out[(*outs)++].name = name;
  }
  needs->flags = current->needs.flags;
  needs->state_bytes = current->needs.state_bytes;
  return 0;
}

std::int32_t make(const ps_params* /*values*/, const ps_spec* /*in*/, std::uint32_t /*ins*/, std::int64_t max_frames,
                  std::int32_t device, void** op, ps_needs* needs, ps_error* /*error*/) {
  EXPECT_EQ(device, -1);
  needs->scratch_bytes = static_cast<std::uint64_t>(8 * max_frames);
  needs->flags |= current->later_flags;
  *op = current;
  return 0;
}

const char* run(void* op, const ps_run* given) {
  EXPECT_EQ(op, current);
  EXPECT_EQ(given->size, sizeof(ps_run));
  EXPECT_EQ(given->stream, nullptr);
  EXPECT_EQ(given->queue, nullptr);
  std::memcpy(given->out[0], given->in[0], static_cast<std::size_t>(4 * given->frames * given->leading));
  std::memset(given->scratch, 1, 16);
  return given->frames == 2 ? nullptr : "NOT_TWO";
}

void drop(void* op) {
  ++static_cast<script*>(op)->drops;
}

const ps_operator copies{PENSTOCK_PLUGIN_ABI, sizeof(ps_operator), "copies", infer, make, run, drop};
const ps_operator twin{PENSTOCK_PLUGIN_ABI, sizeof(ps_operator), "twin", infer, make, run, drop};

std::shared_ptr<const plugin_library> library_of(std::vector<const ps_operator*> operators) {
  return std::make_shared<const plugin_library>(plugin_library{.operators = std::move(operators)});
}

class Plugin : public testing::Test {
 protected:
  Plugin() { current = &script_; }

  /// A stage that names this library.
  [[nodiscard]] static parameters stage(const std::vector<const ps_operator*>& operators, const entries& more = {}) {
    parameters made = settings_of(more);
    made.set("file", std::make_shared<const code_file>(code_file{
                         .name = "my.so", .path = "/etc/my.so", .text = "", .library = library_of(operators)}));
    return made;
  }
  void expect_refused(std::string_view field, const std::string& message, const entries& more = {},
                      const tensor_spec& input = {.type = element_type::f32, .shape = {10}}) const {
    penstock::expect_refused("plugin", stage({&copies}, more), {input}, field, message);
  }

  script script_;
  const std::vector<tensor_spec> rows_{{.type = element_type::f32, .shape = {10}, .variable = true}};
};

TEST_F(Plugin, MakesWhatItSays) {
  script_.output = {.code = PS_COMPLEX, .bits = 64, .rank = 2, .variable = 1, .extent = {10, 3}, .name = nullptr};
  EXPECT_EQ(infer_plugin(stage({&copies}), rows_).text(), "cf32[max 10, 3]");
}

TEST_F(Plugin, HasNamesForSeveralOutputs) {
  EXPECT_THAT(plugin_outputs(stage({&copies}), rows_), ElementsAre());
  script_.names = {"low", "high"};
  EXPECT_THAT(plugin_outputs(stage({&copies}), rows_),
              ElementsAre(operator_output{"low", rows_.front()}, operator_output{"high", rows_.front()}));
}

TEST_F(Plugin, SeesIntegerIqAsPairsOfIntegers) {
  EXPECT_EQ(infer_plugin(stage({&copies}), std::vector<tensor_spec>{{.type = element_type::ci16, .shape = {7}}}).text(),
            "i16[7, 2]");
  ASSERT_EQ(script_.inputs.size(), 1U);
  EXPECT_EQ(script_.inputs[0].code, PS_INT);
  EXPECT_EQ(script_.inputs[0].bits, 16);
  EXPECT_EQ(script_.inputs[0].rank, 2);
}

TEST_F(Plugin, SeesTheValuesOfTheStage) {
  auto values = std::make_shared<parameters>(settings_of({{"array", std::vector<double>{1, 2.5}},
                                                          {"flag", true},
                                                          {"real", 0.5},
                                                          {"text", std::string("hann")},
                                                          {"texts", std::vector<std::string>{"a", "b"}},
                                                          {"whole", std::int64_t{7}}}));
  EXPECT_EQ(infer_plugin(stage({&copies}, {{"values", values}}), rows_), rows_.front());
  EXPECT_THAT(script_.seen,
              ElementsAre("array 5 1.000000 2.500000", "flag 1 integer 1", "real 3 number 0.500000", "text 4 text hann",
                          "texts 6 text a text b", "whole 2 number 7.000000 integer 7"));
}

TEST_F(Plugin, IsNamedWhereTheLibraryHasSeveral) {
  EXPECT_EQ(plugin_operator(stage({&copies}), "file").name, copies.name);
  EXPECT_EQ(plugin_operator(stage({&copies, &twin}, {{"entry", std::string("twin")}}), "file").name, twin.name);
  penstock::expect_refused("plugin", stage({&copies, &twin}), rows_, "entry",
                           "is missing: the plug-in has the operators 'copies', 'twin'");
  penstock::expect_refused("plugin", stage({&copies}, {{"entry", std::string("triplet")}}), rows_, "entry",
                           "the plug-in has no operator 'triplet'; it has 'copies'");
}

TEST_F(Plugin, RefusesInItsOwnWords) {
  const auto values = std::make_shared<parameters>(settings_of({{"gain", 0.5}}));
  script_.refused_field = "gain";
  expect_refused("values", "'gain' is not to its taste", {{"values", values}});
  expect_refused("values", "has no 'gain': is not to its taste");
  script_.refused_field = "from";
  expect_refused("from", "is not to its taste");
  script_.refused_field = "";
  expect_refused("", "is not to its taste");
}

TEST_F(Plugin, IsRefusedWhereItContradictsItself) {
  script_.output = {.code = 9, .bits = 32, .rank = 1, .variable = 0, .extent = {4}, .name = nullptr};
  expect_refused("file", "operator 'copies' of the plug-in has an output of an unknown type: code 9, 32 bits");
  script_.output = {.code = PS_FLOAT, .bits = 32, .rank = 9, .variable = 0, .extent = {4}, .name = nullptr};
  expect_refused("file", "has an output of 9 extents");
  script_.output = {.code = PS_FLOAT, .bits = 32, .rank = 1, .variable = 0, .extent = {0}, .name = nullptr};
  expect_refused("file", "has an output with an extent of 0");
  script_.output = {.code = PS_FLOAT, .bits = 32, .rank = 1, .variable = 1, .extent = {10}, .name = nullptr};
  expect_refused("file", "has an output of variable length, f32[max 10], that is not the length of an input");
  script_.output = {};
  script_.names = {};
  expect_refused("file", "has 0 outputs");
  script_.names = {"one", nullptr};
  expect_refused("file", "has several outputs, and '' is no name of one");
  script_.names = {"one", "t.wo"};
  expect_refused("file", "has several outputs, and 't.wo' is no name of one");
  script_.names = {"one", "one"};
  expect_refused("file", "has two outputs 'one'");
  script_.names = {nullptr};
  script_.needs.flags = 1U << 20U;
  expect_refused("file", "has flags that this daemon does not know: 1048576");
  script_.needs.flags = PS_WHOLE_FRAMES;
  expect_refused("file", "has the flag PS_WHOLE_FRAMES or PS_WAVES and no state");
}

TEST_F(Plugin, KeepsStateByRowsOrByFrames) {
  EXPECT_EQ(plugin_session(stage({&copies}), rows_), std::nullopt);
  script_.needs.state_bytes = 12;
  EXPECT_FALSE(plugin_session(stage({&copies}), rows_).value().whole_frames);
  script_.needs.flags = PS_WAVES;
  EXPECT_TRUE(plugin_session(stage({&copies}), std::vector<tensor_spec>{{.type = element_type::f32, .shape = {10}}})
                  ->whole_frames);
  script_.needs.flags = PS_WHOLE_FRAMES;
  expect_refused("from", "keeps state by whole frames: they need one fixed shape, not f32[max 10]", {}, rows_.front());
  script_.output = {.code = PS_FLOAT, .bits = 32, .rank = 1, .variable = 0, .extent = {4}, .name = nullptr};
  const std::vector<tensor_spec> fixed{{.type = element_type::f32, .shape = {10}}};
  EXPECT_TRUE(plugin_session(stage({&copies}), fixed)->whole_frames);
  script_.needs.flags = 0;
  expect_refused("file", "keeps state by rows and makes f32[4] of f32[10]");
}

TEST_F(Plugin, RunsOnTheHost) {
  script_.needs.flags = PS_SINGLE_PASS | PS_OVERWRITES;
  {
    const auto made = make_plugin_host({stage({&copies}), rows_, 5});
    EXPECT_EQ(made->scratch_bytes(), 40U);
    EXPECT_TRUE(made->single_pass());
    EXPECT_TRUE(made->overwrites());
    const std::vector<float> in{1, 2, 3, 4, 5, 6};
    std::vector<float> out(6);
    std::vector<std::byte> scratch(40);
    const void* const inputs[] = {in.data()};
    operation_arguments arguments{.inputs = inputs,
                                  .output = out.data(),
                                  .scratch = scratch.data(),
                                  .extent = {.frames = 2, .leading = 3},
                                  .session = {}};
    EXPECT_FALSE(made->run(nullptr, arguments));
    EXPECT_EQ(out, in);
    arguments.extent.frames = 1;
    EXPECT_STREQ(made->run(nullptr, arguments).name, "NOT_TWO");
  }
  EXPECT_EQ(script_.drops, 1);
}

TEST_F(Plugin, IsRefusedWhereItChangesItsMind) {
  script_.later_flags = PS_OVERWRITES;
  try {
    static_cast<void>(make_plugin_host({stage({&copies}), rows_, 5}));
    FAIL();
  } catch (const parameter_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has other flags or another state once it is made"));
  }
  EXPECT_EQ(script_.drops, 1);
}

/// A kernel stage of f32[max 10] with this library as `host`.
parameters kernel_stage(const entries& more, bool with_host = true) {
  parameters made = settings_of({{"grid", std::vector<std::string>{"frames"}},
                                 {"block", std::vector<std::string>{"32"}},
                                 {"args", std::vector<std::string>{"in", "out"}},
                                 {"entry", std::string("agc<float>")}});
  for (const auto& [key, value] : more) {
    made.set(key, value);
  }
  made.set("file", std::make_shared<const code_file>(code_file{.name = "agc.cu", .path = "/etc/agc.cu", .text = ""}));
  if (with_host) {
    made.set("host", std::make_shared<const code_file>(code_file{
                         .name = "agc.so", .path = "/etc/agc.so", .text = "", .library = library_of({&copies})}));
  }
  return made;
}

TEST_F(Plugin, StandsForAKernelOnTheHost) {
  const operator_definition& kernel = *find_operator("kernel");
  EXPECT_EQ(kernel.infer(kernel_stage({}), rows_), rows_.front());
  EXPECT_NE(kernel.make_host({kernel_stage({}), rows_, 5}), nullptr);
  const auto other = std::make_shared<parameters>(settings_of({{"dtype", std::string("i32")}}));
  penstock::expect_refused("kernel", kernel_stage({{"output", other}}), rows_, "host",
                           "makes f32[max 10], where the kernel makes i32[max 10]");
  const auto state = std::make_shared<parameters>(settings_of({{"bytes", std::int64_t{4}}}));
  penstock::expect_refused("kernel", kernel_stage({{"state", state}}), rows_, "host",
                           "keeps no state, and the stage has `state`");
}

TEST_F(Plugin, IsNamedAsWhatTheHostLacks) {
  try {
    static_cast<void>(find_operator("kernel")->make_host({kernel_stage({}, false), rows_, 5}));
    FAIL();
  } catch (const parameter_error& error) {
    EXPECT_EQ(error.field, "host");
    EXPECT_THAT(error.what(), HasSubstr("is missing: the host backend can't run a CUDA kernel; name a plug-in"));
  }
}

TEST(PluginLibrary, IsRefusedWhereItIsNone) {
  const auto refusal = [](std::string_view bytes) {
    try {
      static_cast<void>(load_plugin(bytes));
      return std::string("loaded");
    } catch (const plugin_error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal(""), "is not a shared library");
  EXPECT_EQ(refusal("#!/bin/sh"), "is not a shared library");
  EXPECT_THAT(refusal(std::string("\x7f"
                                  "ELF") +
                      std::string(500, '\0')),
              HasSubstr("is not a shared library of this machine"));
  EXPECT_THAT(refusal(std::string("\x7f"
                                  "ELF") +
                      std::string(500, '\0')),
              testing::Not(HasSubstr("/proc")));
}

}  // namespace
}  // namespace penstock
