#include "kernels/convert.hpp"

#include <string>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

struct sample_scale {
  float offset;
  float divisor;
};

sample_scale scale_of(element_type type) noexcept {
  switch (type) {
    case element_type::u8:
    case element_type::cu8:
      return {127.5F, 127.5F};
    case element_type::i8:
    case element_type::ci8:
      return {0.0F, 128.0F};
    case element_type::i16:
    case element_type::ci16:
      return {0.0F, 32768.0F};
    case element_type::i32:
      return {0.0F, 2147483648.0F};
    case element_type::f32:
    case element_type::cf32:
      break;
  }
  return {0.0F, 1.0F};
}

element_type parse_target(const parameters& settings, const tensor_spec& input) {
  const std::string name = settings.text("to", is_complex(input.type) ? "cf32" : "f32");
  if (name != "f32" && name != "cf32") {
    throw parameter_error("to", "must be \"f32\" or \"cf32\", not \"" + name + "\"");
  }
  if (name == "f32" && is_complex(input.type)) {
    throw parameter_error("to", "must be \"cf32\" for " + input.text() + "; 'magnitude' makes real values of it");
  }
  return name == "f32" ? element_type::f32 : element_type::cf32;
}

void require_planar_input(const tensor_spec& input) {
  if (input.shape.size() != 2) {
    throw parameter_error(
        "planar", "turns round the two dimensions [samples, channels] alone; its input is " + input.text() +
                      (input.shape.size() > 2
                           ? ": convert frames of [samples, channels] before a stage or a client adds a dimension"
                           : ": with one channel there is nothing to turn round"));
  }
  if (input.variable) {
    throw parameter_error("planar", "must be false where the leading dimension is variable: " + input.text() +
                                        "; frames of one length, without \"max\", can be turned round");
  }
}

}  // namespace

convert_settings parse_convert(const parameters& settings, const tensor_spec& input) {
  convert_settings parsed;
  parsed.from = input.type;
  parsed.to = parse_target(settings, input);
  const sample_scale scale = scale_of(input.type);
  parsed.offset = scale.offset;
  parsed.divisor = scale.divisor;
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = parsed.to;
  parsed.planar = settings.flag("planar", false);
  if (parsed.planar) {
    require_planar_input(input);
    parsed.samples = input.shape[0];
    parsed.channels = input.shape[1];
    parsed.output.shape = {parsed.channels, parsed.samples};
  }
  return parsed;
}

tensor_spec infer_convert(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_convert(settings, sole_input("convert", inputs)).output;
}

}  // namespace penstock
