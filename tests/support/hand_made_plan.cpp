#include "tests/support/hand_made_plan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
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
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::size_t bytes =
        static_cast<std::size_t>(arguments.extent.frames) * input_.bytes(arguments.extent.leading);
    const auto* const from = static_cast<const std::uint8_t*>(arguments.inputs[0]);
    std::transform(from, from + bytes, static_cast<std::uint8_t*>(arguments.output),
                   [](std::uint8_t byte) { return static_cast<std::uint8_t>(byte + 1); });
    return {};
  }
};

class sum_operation : public stage_operation {
 public:
  using stage_operation::stage_operation;
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::size_t bytes = input_.bytes(arguments.extent.leading);
    const auto* from = static_cast<const std::uint8_t*>(arguments.inputs[0]);
    auto* const to = static_cast<std::int32_t*>(arguments.output);
    for (std::int64_t frame = 0; frame < arguments.extent.frames; ++frame, from += bytes) {
      std::int32_t sum = 0;
      for (std::size_t index = 0; index < bytes; ++index) {
        sum += from[index];
      }
      to[frame] = sum;
    }
    return {};
  }
};

// One half of a session's state.
struct total_state {
  std::int64_t position = 0;
  std::uint32_t total = 0;
};

class total_operation : public stage_operation {
 public:
  using stage_operation::stage_operation;
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return sizeof(total_state); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const session_frame* const frames = arguments.session.frames;
    for (std::int32_t first = 0; first < arguments.extent.frames; ++first) {
      if (frames[first].previous < 0) {
        run_session(arguments, first);
      } else if (frames[frames[first].previous].next != first) {
        spoil(arguments, first);
      }
    }
    return {};
  }

 private:
  static void spoil(const operation_arguments& arguments, std::int32_t frame) noexcept {
    static_cast<std::int32_t*>(arguments.output)[frame] = std::numeric_limits<std::int32_t>::min();
  }

  void run_session(const operation_arguments& arguments, std::int32_t first) const noexcept {
    const session_frame& start = arguments.session.frames[first];
    total_state state;
    if (start.position > 0) {
      std::memcpy(&state, arguments.session.half(start.place, start.half), sizeof state);
    }
    bool right = true;
    std::int32_t before = -1;
    for (std::int32_t at = first; at >= 0; at = arguments.session.frames[at].next) {
      const session_frame& each = arguments.session.frames[at];
      right = right && each.previous == before && each.place == start.place && each.half == start.half &&
              each.position == state.position && each.produced == each.steps;
      state.position += each.steps;
      state.total += sum_of(arguments, at, each.steps);
      static_cast<std::int32_t*>(arguments.output)[at] = static_cast<std::int32_t>(state.total);
      if (!right) {
        spoil(arguments, at);
      }
      before = at;
    }
    state.position = right ? state.position : -1;
    std::memcpy(arguments.session.half(start.place, 1 - start.half), &state, sizeof state);
  }

  [[nodiscard]] std::uint32_t sum_of(const operation_arguments& arguments, std::int32_t frame,
                                     std::int32_t steps) const noexcept {
    const std::size_t step = input_.bytes() / static_cast<std::size_t>(input_.shape.front());
    const auto* const bytes = static_cast<const std::uint8_t*>(arguments.inputs[0]) +
                              static_cast<std::size_t>(frame) * input_.bytes(arguments.extent.leading);
    return std::accumulate(bytes, bytes + static_cast<std::size_t>(steps) * step, std::uint32_t{0});
  }
};

// Without "sum".
void leave_next_alone(plan& made) {
  made.rewrites_input = true;
  made.buffers.pop_back();
  made.stages.pop_back();
  made.outputs.pop_back();
}

void add_total(plan& made) {
  const tensor_spec total{element_type::i32, {1}, false};
  const std::size_t bytes = static_cast<std::size_t>(made.max_frames) * total.bytes();
  plan_stage stage{"total", "total", {0}, 3, 0, 0, make_session_total(made.input()), plan_state{}};
  stage.state->fixed_steps = made.input().variable ? 0 : made.input().shape.front();
  made.state_bytes = aligned(stage.compiled->state_bytes());
  made.keepers = {made.stages.size()};
  made.stages.push_back(std::move(stage));
  made.buffers.push_back({"total", total, {}, aligned(made.device_bytes), bytes});
  made.device_bytes = made.buffers.back().offset + bytes;
  made.outputs.push_back({"total", "total", 3, aligned(made.pinned_output_bytes)});
  made.pinned_output_bytes = made.outputs.back().pinned_offset + bytes;
  const std::size_t table = static_cast<std::size_t>(made.max_frames) * sizeof(session_frame);
  made.frame_table_offset = aligned(made.device_bytes);
  made.device_bytes = made.frame_table_offset + table;
  made.frame_table_pinned = aligned(made.pinned_input_bytes);
  made.pinned_input_bytes = made.frame_table_pinned + table;
}

// The copy in, the stages, which all read the input, and a copy out of each.
void make_order(plan& made, std::uint32_t max_lanes) {
  std::vector<schedule_node> nodes{{{}, false}};
  nodes.insert(nodes.end(), made.stages.size(), {{0}, false});
  for (const plan_output& each : made.outputs) {
    nodes.push_back({{each.buffer}, true});
  }
  made.order = make_schedule(nodes, max_lanes);
}

}  // namespace

std::unique_ptr<operation> make_session_total(const tensor_spec& input) {
  return std::make_unique<total_operation>(input);
}

std::unique_ptr<operation> make_next(const tensor_spec& input) {
  return std::make_unique<next_operation>(input);
}

plan hand_made_plan(std::uint32_t id, const plan_wish& wish) {
  const tensor_spec input{wish.type, wish.shape, wish.variable};
  const tensor_spec sum{element_type::i32, {1}, false};
  const std::size_t input_bytes = static_cast<std::size_t>(wish.max_frames) * input.bytes();
  const std::size_t sum_bytes = static_cast<std::size_t>(wish.max_frames) * sum.bytes();
  plan made;
  made.id = id;
  made.place = id;
  made.declaration.name = "pipeline" + std::to_string(id);
  made.declaration.input = input;
  made.declaration.priority = wish.priority;
  made.declaration.overflow = wish.overflow;
  made.declaration.ordered = wish.ordered;
  made.declaration.batch.max_frames = wish.max_frames;
  made.declaration.batch.max_delay = wish.max_delay;
  made.max_frames = wish.max_frames;
  made.buffers.push_back({"input", input, {}, 0, input_bytes});
  made.buffers.push_back({"next", input, {}, aligned(input_bytes), input_bytes});
  made.buffers.push_back({"sum", sum, {}, 2 * aligned(input_bytes), sum_bytes});
  made.stages.push_back({"next", "next", {0}, 1, 0, 0, std::make_unique<next_operation>(input), {}});
  made.stages.push_back({"sum", "sum", {0}, 2, 0, 0, std::make_unique<sum_operation>(input), {}});
  made.outputs.push_back({"next", "next", 1, 0});
  made.outputs.push_back({"sum", "sum", 2, aligned(input_bytes)});
  made.pinned_input_bytes = input_bytes;
  made.pinned_output_bytes = aligned(input_bytes) + sum_bytes;
  made.device_bytes = 2 * aligned(input_bytes) + sum_bytes;
  if (wish.rewrites_input) {
    leave_next_alone(made);
  } else if (wish.keeps_state) {
    add_total(made);
  }
  make_order(made, wish.max_lanes);
  if (wish.blocks) {
    made.blocks = true;
    made.device_bytes = 0;
  }
  return made;
}

std::vector<plan> hand_made_plans(const std::vector<plan_wish>& wishes) {
  std::vector<plan> made;
  for (const plan_wish& each : wishes) {
    made.push_back(hand_made_plan(static_cast<std::uint32_t>(made.size()), each));
  }
  return made;
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
  for (std::size_t index = 0; index < payload.size(); ++index) {
    made[index * frames / payload.size()] += static_cast<unsigned char>(payload[index]);
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
