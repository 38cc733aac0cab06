#include "tests/support/hand_made_plan.hpp"

#include <algorithm>
#include <memory>
#include <random>

namespace penstock::testing {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

class stage_operation : public operation {
 public:
  explicit stage_operation(tensor_spec input) : input_(std::move(input)) {}

 protected:
  tensor_spec input_;
};

class next_operation : public stage_operation {
 public:
  using stage_operation::stage_operation;
  fault run(void* /*stream*/, const operation_arguments& with) noexcept override {
    const std::size_t bytes = static_cast<std::size_t>(with.extent.frames) * input_.bytes(with.extent.leading);
    const auto* const from = static_cast<const std::uint8_t*>(with.inputs[0]);
    std::transform(from, from + bytes, static_cast<std::uint8_t*>(with.output),
                   [](std::uint8_t byte) { return static_cast<std::uint8_t>(byte + 1); });
    return {};
  }
};

class sum_operation : public stage_operation {
 public:
  using stage_operation::stage_operation;
  fault run(void* /*stream*/, const operation_arguments& with) noexcept override {
    const std::size_t bytes = input_.bytes(with.extent.leading);
    const auto* from = static_cast<const std::uint8_t*>(with.inputs[0]);
    auto* const to = static_cast<std::int32_t*>(with.output);
    for (std::int64_t frame = 0; frame < with.extent.frames; ++frame, from += bytes) {
      std::int32_t sum = 0;
      for (std::size_t at = 0; at < bytes; ++at) {
        sum += from[at];
      }
      to[frame] = sum;
    }
    return {};
  }
};

}  // namespace

plan hand_made_plan(std::uint32_t id, const plan_wish& wish) {
  const tensor_spec input{wish.type, wish.shape, wish.variable};
  const tensor_spec sum{element_type::i32, {1}, false};
  const std::size_t input_bytes = static_cast<std::size_t>(wish.max_frames) * input.bytes();
  const std::size_t sum_bytes = static_cast<std::size_t>(wish.max_frames) * sum.bytes();
  plan made;
  made.id = id;
  made.declaration.name = "pipeline" + std::to_string(id);
  made.declaration.input = input;
  made.declaration.priority = wish.priority;
  made.declaration.overflow = wish.overflow;
  made.declaration.batch.max_frames = wish.max_frames;
  made.declaration.batch.max_delay = wish.max_delay;
  made.max_frames = wish.max_frames;
  made.buffers.push_back({"input", input, 0, input_bytes});
  made.buffers.push_back({"next", input, aligned(input_bytes), input_bytes});
  made.buffers.push_back({"sum", sum, 2 * aligned(input_bytes), sum_bytes});
  made.stages.push_back({"next", "next", {0}, 1, 0, std::make_unique<next_operation>(input)});
  made.stages.push_back({"sum", "sum", {0}, 2, 0, std::make_unique<sum_operation>(input)});
  made.outputs.push_back({"next", "next", 1, 0});
  made.outputs.push_back({"sum", "sum", 2, aligned(input_bytes)});
  made.pinned_input_bytes = input_bytes;
  made.pinned_output_bytes = aligned(input_bytes) + sum_bytes;
  made.arena_bytes = 2 * aligned(input_bytes) + sum_bytes;
  return made;
}

std::vector<plan> hand_made_plans(const std::vector<plan_wish>& wishes) {
  std::vector<plan> made;
  for (const plan_wish& each : wishes) {
    made.push_back(hand_made_plan(static_cast<std::uint32_t>(made.size()), each));
  }
  return made;
}

slot_size size_for(const std::vector<plan>& plans) {
  slot_size size;
  for (const plan& each : plans) {
    size.pinned_input = std::max(size.pinned_input, each.pinned_input_bytes);
    size.pinned_output = std::max(size.pinned_output, each.pinned_output_bytes);
    size.arena = std::max(size.arena, each.arena_bytes);
    size.max_frames = std::max(size.max_frames, static_cast<std::size_t>(each.max_frames));
    size.launches = std::max(size.launches, each.stages.size());
    size.operands = std::max(size.operands, each.stages.size());
  }
  return size;
}

std::string next_of(const std::string& payload) {
  std::string made = payload;
  for (char& each : made) {
    each = static_cast<char>(each + 1);
  }
  return made;
}

std::vector<std::int32_t> sums_of(const std::string& payload, std::size_t frames) {
  std::vector<std::int32_t> made(frames, 0);
  for (std::size_t at = 0; at < payload.size(); ++at) {
    made[at * frames / payload.size()] += static_cast<unsigned char>(payload[at]);
  }
  return made;
}

std::string payload_of(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string made(bytes, '\0');
  for (char& each : made) {
    each = static_cast<char>(random());
  }
  return made;
}

}  // namespace penstock::testing
