#include "kernels/accumulate.hpp"

#include <string>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

std::int64_t parse_frames(const parameters& settings) {
  if (!settings.has("frames")) {
    throw parameter_error("frames", "is missing");
  }
  const std::int64_t frames = settings.integer("frames", 0);
  if (frames < 1 || frames > 4096) {
    throw parameter_error("frames", "must be an integer from 1 to 4096, not " + std::to_string(frames));
  }
  return frames;
}

/// Whether the choice is `second`; `first` is the default.
bool parse_choice(const parameters& settings, const char* key, const std::string& first, const std::string& second) {
  const std::string chosen = settings.text(key, first);
  if (chosen != first && chosen != second) {
    throw parameter_error(key, "must be \"" + first + "\" or \"" + second + "\", not \"" + chosen + "\"");
  }
  return chosen == second;
}

}  // namespace

accumulate_settings parse_accumulate(const parameters& settings, const tensor_spec& input) {
  require_element_type("accumulate", input, {element_type::f32});
  accumulate_settings parsed;
  parsed.window = {.length = parse_frames(settings),
                   .with_current = true,
                   .whole_frames = !parse_choice(settings, "along", "frames", "rows"),
                   .input = input};
  parsed.peak = parse_choice(settings, "kind", "mean", "peak");
  if (parsed.window.whole_frames && input.variable) {
    throw parameter_error(
        "along", "= \"frames\" needs frames of one fixed shape, not " + input.text() + "; \"rows\" takes them");
  }
  return parsed;
}

tensor_spec infer_accumulate(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_accumulate(settings, sole_input("accumulate", inputs)).window.input;
}

session_traits accumulate_session(const parameters& settings, std::span<const tensor_spec> inputs) {
  return {.whole_frames = parse_accumulate(settings, inputs[0]).window.whole_frames, .rate = {}};
}

}  // namespace penstock
