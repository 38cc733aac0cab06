#include "tests/bench/operators/operator_case.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <type_traits>
#include <variant>

namespace penstock::bench {
namespace {

/// To draw takes far longer than to copy.
constexpr std::size_t most_drawn = std::size_t{32} << 20U;

template <class Value, class Draw>
void draw_values(std::vector<std::byte>& into, Draw draw) {
  const std::size_t drawn = std::min(into.size(), most_drawn);
  for (std::size_t at = 0; at < drawn; at += sizeof(Value)) {
    const auto value = static_cast<Value>(draw());
    std::memcpy(into.data() + at, &value, sizeof value);
  }
  for (std::size_t at = drawn; at < into.size(); at += drawn) {
    std::memcpy(into.data() + at, into.data(), std::min(drawn, into.size() - at));
  }
}

}  // namespace

tensor_spec operator_case::output() const {
  return find_operator(op)->infer(settings, inputs);
}

std::size_t operator_case::input_bytes() const {
  std::size_t bytes = 0;
  for (const tensor_spec& each : inputs) {
    bytes += static_cast<std::size_t>(frames) * each.bytes();
  }
  return bytes;
}

std::size_t operator_case::output_bytes() const {
  return static_cast<std::size_t>(frames) * output().bytes();
}

std::size_t operator_case::sessions() const noexcept {
  return one_session ? 1 : static_cast<std::size_t>(frames);
}

std::vector<session_frame> operator_case::session_frames() const {
  const operator_definition& definition = *find_operator(op);
  if (definition.session == nullptr) {
    return {};
  }
  const session_traits traits = definition.session(settings, inputs);
  const std::int64_t steps = traits.whole_frames ? 1 : inputs.front().shape.front();
  std::vector<session_frame> made;
  for (std::int32_t index = 0; index < frames; ++index) {
    const std::int64_t position = (earlier_frames + (one_session ? index : 0)) * steps;
    const bool last = !one_session || index + 1 == frames;
    made.push_back(
        {.position = position,
         .steps = static_cast<std::int32_t>(steps),
         .produced = static_cast<std::int32_t>(traits.rate.total(position + steps) - traits.rate.total(position)),
         .previous = one_session ? index - 1 : -1,
         .next = last ? -1 : index + 1,
         .place = one_session ? 0 : index,
         .half = 0});
  }
  return made;
}

std::vector<std::byte> input_batch(const operator_case& what, std::size_t input) {
  const tensor_spec& spec = what.inputs[input];
  std::vector<std::byte> batch(static_cast<std::size_t>(what.frames) * spec.bytes());
  std::mt19937 random(static_cast<unsigned>(input) + 1);
  if (is_floating(spec.type)) {
    std::normal_distribution<float> noise(0.0F, 0.3F);
    draw_values<float>(batch, [&] { return noise(random); });
  } else {
    draw_values<std::uint8_t>(batch, [&] { return random() >> 24U; });
  }
  return batch;
}

nlohmann::ordered_json to_json(const operator_case& what) {
  nlohmann::ordered_json json = {{"name", what.name},
                                 {"op", what.op},
                                 {"frames", what.frames},
                                 {"one_session", what.one_session},
                                 {"settings", nlohmann::ordered_json::object()},
                                 {"inputs", nlohmann::ordered_json::array()}};
  for (const auto& [key, value] : what.settings) {
    std::visit(
        [&, &named = key](const auto& held) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(held)>, no_parameter>) {
            json["settings"][named] = held;
          }
        },
        value);
  }
  const auto described = [](const tensor_spec& spec) {
    return nlohmann::ordered_json{{"type", name_of(spec.type)}, {"shape", spec.shape}};
  };
  for (const tensor_spec& each : what.inputs) {
    json["inputs"].push_back(described(each));
  }
  json["output"] = described(what.output());
  return json;
}

}  // namespace penstock::bench
