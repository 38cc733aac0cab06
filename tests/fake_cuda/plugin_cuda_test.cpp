// How a plug-in gets a stream and a queue on a GPU; neither a GPU nor nvcc is needed.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/kernel_queue.hpp"
#include "kernels/plugin.hpp"
#include "kernels/plugin_library.hpp"

// What plugin_cuda.cpp asks of CUDA's runtime.
extern "C" {
cudaError_t cudaGetDevice(int* device) {
  *device = 3;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 3 ? cudaSuccess : cudaErrorInvalidDevice;
}
const char* cudaGetErrorName(cudaError_t /*error*/) {
  return "cudaErrorOfATest";
}
}

namespace penstock {

std::unique_ptr<operation> make_waves_cuda(std::unique_ptr<operation> step, wave_layout /*layout*/) {
  return step;
}

namespace {

using testing::ElementsAre;

std::vector<std::string> events;
std::uint32_t operator_flags = 0;
const char* (*operator_run)(const ps_run*) = nullptr;

class logged_queue final : public kernel_queue {
 public:
  fault add(const kernel_call& call) noexcept override {
    events.push_back("add " + std::to_string(call.grid.x) + " x " + std::to_string(call.block.x) + ", " +
                     std::to_string(call.shared) + " bytes, " + std::to_string(call.arguments.size()) + " arguments");
    return refusal;
  }
  fault refusal;

 protected:
  fault flush() noexcept override {
    events.emplace_back("flush");
    return {};
  }
  [[nodiscard]] cudaStream_t stream() const noexcept override {
    return reinterpret_cast<cudaStream_t>(const_cast<int*>(&place_));
  }

 private:
  int place_ = 0;
};

const ps_operator scripted{PENSTOCK_PLUGIN_ABI,
                           sizeof(ps_operator),
                           "scripted",
                           [](const ps_params*, const ps_spec* in, std::uint32_t, ps_spec* out, std::uint32_t* outs,
                              ps_needs* needs, ps_error*) -> std::int32_t {
                             *out = *in;
                             *outs = 1;
                             needs->flags = operator_flags;
                             return 0;
                           },
                           [](const ps_params*, const ps_spec*, std::uint32_t, std::int64_t, std::int32_t device,
                              void**, ps_needs*, ps_error*) -> std::int32_t { return device == 3 ? 0 : 1; },
                           [](void*, const ps_run* run) { return operator_run(run); },
                           [](void*) {}};

std::int32_t add_kernel(const ps_run* run, std::uint32_t count) {
  static int number = 0;
  const std::array<std::uint32_t, 3> grid{7, 1, 1};
  const std::array<std::uint32_t, 3> block{32, 1, 1};
  std::array<void*, 17> arguments{};
  arguments.fill(&number);
  std::array<std::size_t, 17> sizes{};
  sizes.fill(sizeof number);
  return run->add(run->queue, &number, grid.data(), block.data(), 64, arguments.data(), sizes.data(), count);
}

std::string outcome(kernel_queue& queue, std::uint32_t flags, const char* (*work)(const ps_run*)) {
  events.clear();
  operator_flags = flags;
  operator_run = work;
  parameters stage;
  stage.set("file", std::make_shared<const code_file>(code_file{
                        .name = "my.so",
                        .path = "my.so",
                        .text = "",
                        .library = std::make_shared<const plugin_library>(plugin_library{.operators = {&scripted}})}));
  const tensor_spec spec{.type = element_type::f32, .shape = {4}};
  const auto made = make_plugin_cuda({stage, std::span(&spec, 1), 5});
  std::array<float, 4> memory{};
  const void* const inputs[] = {memory.data()};
  const fault met = made->run(&queue, {.inputs = inputs,
                                       .output = memory.data(),
                                       .scratch = nullptr,
                                       .extent = {.frames = 1, .leading = 4},
                                       .session = {}});
  return met ? met.name : "";
}

TEST(PluginOnCuda, GetsAStreamBehindWhatWasAdded) {
  logged_queue queue;
  EXPECT_EQ(outcome(queue, 0,
                    [](const ps_run* run) -> const char* {
                      events.emplace_back(run->stream != nullptr ? "work" : "no stream");
                      EXPECT_EQ(add_kernel(run, 2), 0);
                      EXPECT_EQ(run->flush(run->queue), 0);
                      events.emplace_back("more work");
                      return nullptr;
                    }),
            "");
  EXPECT_THAT(events, ElementsAre("flush", "work", "add 7 x 32, 64 bytes, 2 arguments", "flush", "more work"));
}

TEST(PluginOnCuda, HasNoStreamWhereItOnlyAddsKernels) {
  logged_queue queue;
  EXPECT_EQ(outcome(queue, PS_QUEUES,
                    [](const ps_run* run) -> const char* {
                      EXPECT_EQ(run->stream, nullptr);
                      static_cast<void>(add_kernel(run, 16));
                      return nullptr;
                    }),
            "");
  EXPECT_THAT(events, ElementsAre("add 7 x 32, 64 bytes, 16 arguments"));
}

TEST(PluginOnCuda, IsToldWhyAKernelWasNotAdded) {
  logged_queue queue;
  EXPECT_EQ(
      outcome(queue, PS_QUEUES, [](const ps_run* run) { return add_kernel(run, 17) == 0 ? nullptr : "ITS_OWN_WORD"; }),
      "PLUGIN_KERNEL_ARGUMENTS");
  EXPECT_THAT(events, ElementsAre());
  queue.refusal = {"cudaErrorIllegalAddress"};
  EXPECT_EQ(outcome(queue, 0, [](const ps_run* run) { return add_kernel(run, 1) == 0 ? nullptr : "ITS_OWN_WORD"; }),
            "cudaErrorIllegalAddress");
  EXPECT_EQ(outcome(queue, 0, [](const ps_run*) { return "ITS_OWN_WORD"; }), "ITS_OWN_WORD");
}

}  // namespace
}  // namespace penstock
