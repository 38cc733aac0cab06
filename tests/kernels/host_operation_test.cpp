#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/operation.hpp"
#include "tests/kernels/operator_sample.hpp"

namespace penstock {
namespace {

struct alignas(256) aligned_block {
  std::array<std::byte, 256> bytes{};
};
using aligned_memory = std::vector<aligned_block>;

aligned_memory allocate(std::size_t bytes) {
  return aligned_memory(bytes / sizeof(aligned_block) + 1);
}

/// Each frame the first of a session of its own.
std::vector<session_frame> first_frames(std::int32_t count, const tensor_spec& input, const session_traits& traits) {
  const std::int64_t steps = traits.whole_frames ? 1 : input.shape.front();
  std::vector<session_frame> frames;
  for (std::int32_t place = 0; place < count; ++place) {
    frames.push_back({.position = 0,
                      .steps = static_cast<std::int32_t>(steps),
                      .produced = static_cast<std::int32_t>(traits.rate.total(steps)),
                      .previous = -1,
                      .next = -1,
                      .place = place,
                      .half = 0});
  }
  return frames;
}

/// Runs `subject` over its own copy of the input, output, scratch and states; returns the output's bytes.
aligned_memory run_alone(operation& subject, const std::vector<tensor_spec>& specs, const tensor_spec& output,
                         const session_traits& traits = {}) {
  const batch_extent extent{.frames = 5};
  const tensor_spec& input = specs.front();
  aligned_memory in = allocate(5 * input.bytes());
  auto* const samples = reinterpret_cast<float*>(in.data());
  for (std::size_t i = 0; i < 5 * input.bytes() / sizeof(float); ++i) {
    samples[i] = static_cast<float>(i % 97) / 97.0F;
  }
  aligned_memory out = allocate(5 * output.bytes());
  aligned_memory scratch = allocate(subject.scratch_bytes());
  const std::size_t stride = (subject.state_bytes() + 255) / 256 * 256;
  aligned_memory pool = allocate(2 * 5 * stride);
  const std::vector<session_frame> frames = first_frames(5, input, traits);
  const std::vector<const void*> inputs(specs.size(), in.data());
  EXPECT_FALSE(subject.run(
      nullptr,
      {.inputs = inputs,
       .output = out.data(),
       .scratch = scratch.data(),
       .extent = extent,
       .session = {.frames = frames.data(), .pool = reinterpret_cast<std::byte*>(pool.data()), .stride = stride}}));
  return out;
}

bool same(const aligned_memory& a, const aligned_memory& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) { return x.bytes == y.bytes; });
}

TEST(HostOperation, GivesSeveralThreadsAtOnceWhatItGivesOne) {
  for (const operator_definition& known : operator_catalogue()) {
    const operator_sample sample = sample_of(known.name, 250);
    const std::vector<tensor_spec> inputs(sample.inputs, {.type = sample.type, .shape = {3, 250}});
    const tensor_spec output = known.infer(sample.settings, inputs);
    const session_traits traits =
        known.session == nullptr ? session_traits{} : known.session(sample.settings, inputs).value_or(session_traits{});
    const auto shared = known.make_host({.settings = sample.settings, .inputs = inputs, .max_frames = 5});
    const aligned_memory expected = run_alone(*shared, inputs, output, traits);
    std::array<aligned_memory, 4> results;
    std::vector<std::thread> threads;
    for (aligned_memory& result : results) {
      threads.emplace_back([&] { result = run_alone(*shared, inputs, output, traits); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const aligned_memory& result : results) {
      EXPECT_TRUE(same(result, expected)) << known.name;
    }
  }
}

TEST(HostOperation, IsMadeBySeveralThreadsAtOnce) {
  const tensor_spec input{.type = element_type::cf32, .shape = {90}};
  const parameters settings;
  std::array<std::unique_ptr<operation>, 4> made;
  std::vector<std::thread> threads;
  for (std::unique_ptr<operation>& one : made) {
    threads.emplace_back([&] {
      one = find_operator("power_spectrum")
                ->make_host({.settings = settings, .inputs = std::span{&input, 1}, .max_frames = 5});
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const tensor_spec output{.type = element_type::f32, .shape = {90}};
  const aligned_memory first = run_alone(*made[0], {input}, output);
  const auto* const expected = reinterpret_cast<const float*>(first.data());
  const float peak = *std::max_element(expected, expected + 90);
  ASSERT_GT(peak, 1.0F);
  for (const auto& one : made) {
    const aligned_memory result = run_alone(*one, {input}, output);
    const auto* const got = reinterpret_cast<const float*>(result.data());
    for (std::size_t bin = 0; bin < 90; ++bin) {
      EXPECT_NEAR(got[bin], expected[bin], 1e-5F * peak) << bin;
    }
  }
}

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

void run(operation& subject, const void* input, void* output) {
  std::vector<std::byte> scratch(subject.scratch_bytes());
  const void* const inputs[] = {input};
  EXPECT_FALSE(subject.run(
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

TEST(HostOperation, GivesTheSameResultsOverItsInput) {
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
