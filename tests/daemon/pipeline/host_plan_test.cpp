#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/config/settings.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/pipeline/plan.hpp"

namespace penstock {
namespace {

/// Compiles the shipped pipelines for the host and runs batches of them, as a slot would hold them.
class host_plan : public testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PENSTOCK_CONFIG");
    if (folder == nullptr) {
      GTEST_SKIP() << "PENSTOCK_CONFIG does not say where the shipped configurations are";
    }
    shipped_ = load_settings(std::filesystem::path(folder) / "penstock.toml");
  }

  /// Fills the pinned input with frames that are numbers of its type whatever the bytes are taken for.
  void fill(std::byte* input, const tensor_spec& spec, std::int64_t frames) {
    const std::size_t bytes = spec.bytes() * static_cast<std::size_t>(frames);
    if (is_floating(spec.type)) {
      std::normal_distribution<float> values(70.0F, 10.0F);
      for (std::size_t at = 0; at < bytes; at += sizeof(float)) {
        const float value = values(random_);
        std::memcpy(input + at, &value, sizeof value);
      }
      return;
    }
    for (std::size_t at = 0; at < bytes; ++at) {
      input[at] = static_cast<std::byte>(random_());
    }
  }

  /// One batch the plan's way: every buffer at its offset.
  std::vector<std::byte> run(const plan& what, const std::byte* input, std::int64_t frames) {
    const device_memory memory = device_->allocate(what.device_bytes);
    const device_memory output = device_->allocate_pinned(what.pinned_output_bytes);
    const auto stream = device_->open_stream(stream_priority::normal);
    const auto count = static_cast<std::size_t>(frames);
    EXPECT_FALSE(stream->copy_in(memory.get(), input, what.input().bytes() * count));
    for (const plan_stage& stage : what.stages) {
      std::vector<const void*> inputs;
      for (const std::size_t buffer : stage.inputs) {
        inputs.push_back(memory.get() + what.buffers[buffer].offset);
      }
      EXPECT_FALSE(stream->launch(*stage.compiled, {inputs,
                                                    memory.get() + what.buffers[stage.output].offset,
                                                    memory.get() + stage.scratch_offset,
                                                    {frames, 0},
                                                    {}}));
      EXPECT_FALSE(stream->synchronize());
    }
    for (std::size_t index = 0; index < what.outputs.size(); ++index) {
      const plan_output& each = what.outputs[index];
      EXPECT_FALSE(stream->copy_out(output.get() + each.pinned_offset, memory.get() + what.buffers[each.buffer].offset,
                                    what.output_spec(index).bytes() * count));
    }
    EXPECT_FALSE(stream->synchronize());
    return {output.get(), output.get() + what.pinned_output_bytes};
  }

  /// The same batch with memory of its own for every buffer.
  std::vector<std::byte> run_apart(const plan& what, const std::byte* input, std::int64_t frames) {
    std::vector<device_memory> buffers;
    for (const plan_buffer& buffer : what.buffers) {
      buffers.push_back(device_->allocate(buffer.bytes));
    }
    const auto count = static_cast<std::size_t>(frames);
    std::memcpy(buffers[0].get(), input, what.input().bytes() * count);
    for (const plan_stage& stage : what.stages) {
      std::vector<const void*> inputs;
      for (const std::size_t buffer : stage.inputs) {
        inputs.push_back(buffers[buffer].get());
      }
      const device_memory scratch = device_->allocate(stage.compiled->scratch_bytes() + 1);
      EXPECT_FALSE(stage.compiled->run(nullptr, {inputs, buffers[stage.output].get(), scratch.get(), {frames, 0}, {}}));
    }
    std::vector<std::byte> output(what.pinned_output_bytes);
    for (std::size_t index = 0; index < what.outputs.size(); ++index) {
      const plan_output& each = what.outputs[index];
      std::memcpy(output.data() + each.pinned_offset, buffers[each.buffer].get(),
                  what.output_spec(index).bytes() * count);
    }
    return output;
  }

  std::unique_ptr<device> device_ = open_host_device(1);
  settings shipped_;
  std::mt19937 random_{20240607};
};

TEST_F(host_plan, GivesInOneArenaWhatItGivesInMemoryApart) {
  for (const pipeline_declaration& pipeline : shipped_.pipelines) {
    const plan made = compile_plan(pipeline, 0, *device_);
    const device_memory input = device_->allocate_pinned(made.pinned_input_bytes);
    for (const std::int64_t frames : {made.max_frames, std::int64_t{1}, made.max_frames / 2}) {
      fill(input.get(), made.input(), frames);
      EXPECT_EQ(run(made, input.get(), frames), run_apart(made, input.get(), frames)) << pipeline.name << " " << frames;
    }
  }
}

TEST_F(host_plan, TakesLessMemoryThanItsBuffersApart) {
  for (const pipeline_declaration& pipeline : shipped_.pipelines) {
    const plan made = compile_plan(pipeline, 0, *device_);
    std::size_t apart = 0;
    for (const plan_buffer& buffer : made.buffers) {
      apart += (buffer.bytes + 255) / 256 * 256;
    }
    for (const plan_stage& stage : made.stages) {
      apart += (stage.compiled->scratch_bytes() + 255) / 256 * 256;
    }
    EXPECT_LE(made.device_bytes, apart) << pipeline.name;
  }
}

}  // namespace
}  // namespace penstock
