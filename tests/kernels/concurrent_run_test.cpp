#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/operation.hpp"

namespace penstock {
namespace {

struct alignas(256) aligned_block {
  std::array<std::byte, 256> bytes{};
};
using aligned_memory = std::vector<aligned_block>;

aligned_memory allocate(std::size_t bytes) {
  return aligned_memory(bytes / sizeof(aligned_block) + 1);
}

/// Runs `what` over its own copy of the input, output and scratch; returns the output's bytes.
aligned_memory run_alone(operation& what, const tensor_spec& input, const tensor_spec& output) {
  const batch_extent extent{.frames = 5};
  aligned_memory in = allocate(5 * input.bytes());
  auto* const samples = reinterpret_cast<float*>(in.data());
  for (std::size_t i = 0; i < 5 * input.bytes() / sizeof(float); ++i) {
    samples[i] = static_cast<float>(i % 97) / 97.0F;
  }
  aligned_memory out = allocate(5 * output.bytes());
  aligned_memory scratch = allocate(what.scratch_bytes());
  const std::array<const void*, 1> inputs{in.data()};
  EXPECT_FALSE(
      what.run(nullptr, {.inputs = inputs, .output = out.data(), .scratch = scratch.data(), .extent = extent}));
  return out;
}

bool same(const aligned_memory& a, const aligned_memory& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) { return x.bytes == y.bytes; });
}

TEST(HostOperation, GivesSeveralThreadsAtOnceWhatItGivesOne) {
  const tensor_spec input{.type = element_type::cf32, .shape = {3, 250}};
  const parameters settings;
  for (const operator_definition& known : operator_catalogue()) {
    const tensor_spec output = known.infer(settings, std::span{&input, 1});
    const auto shared = known.make_host({.settings = settings, .inputs = std::span{&input, 1}, .max_frames = 5});
    const aligned_memory expected = run_alone(*shared, input, output);
    std::array<aligned_memory, 4> results;
    std::vector<std::thread> threads;
    for (aligned_memory& result : results) {
      threads.emplace_back([&] { result = run_alone(*shared, input, output); });
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
  const aligned_memory first = run_alone(*made[0], input, output);
  const auto* const expected = reinterpret_cast<const float*>(first.data());
  const float peak = *std::max_element(expected, expected + 90);
  ASSERT_GT(peak, 1.0F);
  for (const auto& one : made) {
    const aligned_memory result = run_alone(*one, input, output);
    const auto* const got = reinterpret_cast<const float*>(result.data());
    for (std::size_t bin = 0; bin < 90; ++bin) {
      EXPECT_NEAR(got[bin], expected[bin], 1e-5F * peak) << bin;
    }
  }
}

}  // namespace
}  // namespace penstock
