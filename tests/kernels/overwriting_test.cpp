#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/operation.hpp"
#include "tests/kernels/operator_sample.hpp"

namespace penstock {
namespace {

using samples = std::vector<float>;

constexpr std::int64_t frames = 7;

samples noise(const tensor_spec& spec) {
  std::mt19937 random(11);
  std::normal_distribution<float> values;
  samples made(static_cast<std::size_t>(frames) * spec.bytes() / sizeof(float));
  for (float& each : made) {
    each = values(random);
  }
  return made;
}

void run(operation& what, const void* input, void* output) {
  std::vector<std::byte> scratch(what.scratch_bytes());
  const void* const inputs[] = {input};
  EXPECT_FALSE(what.run(
      nullptr,
      {.inputs = inputs, .output = output, .scratch = scratch.data(), .extent = {.frames = frames}, .session = {}}));
}

// With lengths that no vector divides.
std::vector<tensor_spec> specs_of(const operator_definition& op, const parameters& settings) {
  std::vector<tensor_spec> accepted;
  for (const element_type type : {element_type::f32, element_type::cf32}) {
    const tensor_spec spec{.type = type, .shape = {3, 1037}};
    try {
      EXPECT_EQ(op.infer(settings, std::span(&spec, 1)), spec) << op.name;
      accepted.push_back(spec);
    } catch (const parameter_error&) {
      // It does not take that type.
    }
  }
  return accepted;
}

TEST(overwriting, GivesTheSameResults) {
  std::size_t ran = 0;
  for (const operator_definition& op : operator_catalogue()) {
    if (!op.overwrites) {
      continue;
    }
    parameters settings = sample_of(op.name).settings;
    if (op.name == "affine") {
      settings.set("a", 1.7);
      settings.set("b", -0.3);
    }
    for (const tensor_spec& spec : specs_of(op, settings)) {
      SCOPED_TRACE(std::string(op.name) + " of " + spec.text());
      const auto made = op.make_host({settings, std::span(&spec, 1), frames});
      const samples input = noise(spec);
      samples apart(input.size());
      run(*made, input.data(), apart.data());
      EXPECT_NE(apart, input);
      samples over = input;
      run(*made, over.data(), over.data());
      EXPECT_EQ(over, apart);
      ++ran;
    }
  }
  EXPECT_EQ(ran, 4U) << "affine and window, of f32 and of cf32";
}

}  // namespace
}  // namespace penstock
