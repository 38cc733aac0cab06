#include "kernels/reframe.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

std::int64_t parse_length(const parameters& settings) {
  if (!settings.has("length")) {
    throw parameter_error("length", "is missing: the steps of each frame of the output");
  }
  const std::int64_t length = settings.integer("length", 1);
  if (length < 1 || length > std::numeric_limits<std::int32_t>::max()) {
    throw parameter_error("length", "must be from 1 to 2147483647 steps, not " + std::to_string(length));
  }
  return length;
}

std::size_t word_of(std::size_t step_bytes) {
  std::size_t word = 1;
  while (word < 16 && step_bytes % (2 * word) == 0) {
    word *= 2;
  }
  return word;
}

}  // namespace

reframe_settings parse_reframe(const parameters& settings, const tensor_spec& input) {
  reframe_settings parsed;
  parsed.length = parse_length(settings);
  const std::int64_t steps = input.shape.front();
  if (!input.variable && steps % parsed.length != 0) {
    throw parameter_error("length", "must divide the " + std::to_string(steps) + " steps of " + input.text() +
                                        ", or the input be \"max " + std::to_string(steps) + "\"");
  }
  parsed.kept = std::max<std::int64_t>(parsed.length - 1, 1);
  parsed.step_bytes = input.bytes() / static_cast<std::size_t>(steps);
  parsed.word = word_of(parsed.step_bytes);
  parsed.input = input;
  parsed.output = input;
  parsed.output.shape.front() = parsed.length;
  parsed.output.shape.insert(parsed.output.shape.begin(), parsed.rate().most(steps));
  return parsed;
}

tensor_spec infer_reframe(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_reframe(settings, sole_input("reframe", inputs)).output;
}

session_traits reframe_session(const parameters& settings, std::span<const tensor_spec> inputs) {
  return {.whole_frames = false, .rate = parse_reframe(settings, sole_input("reframe", inputs)).rate()};
}

}  // namespace penstock
