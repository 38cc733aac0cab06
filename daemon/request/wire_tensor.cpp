#include "daemon/request/wire_tensor.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock {

wire::data_type wire_type(element_type type) noexcept {
  switch (type) {
    case element_type::u8:
    case element_type::cu8:
      return wire::uint8_type;
    case element_type::i8:
    case element_type::ci8:
      return wire::int8_type;
    case element_type::i16:
    case element_type::ci16:
      return wire::int16_type;
    case element_type::i32:
      return wire::int32_type;
    case element_type::f32:
      return wire::float32_type;
    case element_type::cf32:
      return wire::complex64_type;
    case element_type::u16:
      return wire::uint16_type;
    case element_type::i64:
      return wire::int64_type;
    case element_type::f16:
      return wire::float16_type;
    case element_type::bf16:
      return wire::bfloat16_type;
    case element_type::f64:
      return wire::float64_type;
    case element_type::boolean:
      return wire::bool_type;
  }
  return {};
}

bool travels_as_pairs(element_type type) noexcept {
  return type == element_type::cu8 || type == element_type::ci8 || type == element_type::ci16;
}

wire::tensor_header wire_header(const tensor_spec& spec, std::uint32_t frames, std::int64_t leading) noexcept {
  wire::tensor_header header;
  header.type = wire_type(spec.type);
  header.shape[0] = frames;
  std::size_t at = 1;
  std::int64_t elements = frames;
  for (std::int64_t extent : spec.shape) {
    extent = at == 1 && spec.variable ? leading : extent;
    header.shape[at++] = extent;
    elements *= extent;
  }
  if (travels_as_pairs(spec.type)) {
    header.shape[at++] = 2;
  }
  header.dimensions = static_cast<std::uint8_t>(at);
  header.bytes = static_cast<std::uint64_t>(elements) * size_of(spec.type);
  return header;
}

wire::tensor_description describe(const tensor_spec& spec, std::string name, std::string op) {
  wire::tensor_description made;
  made.name = std::move(name);
  made.op = std::move(op);
  made.element = name_of(spec.type);
  made.shape = spec.shape;
  made.variable = spec.variable;
  made.dtype = made.element;
  if (travels_as_pairs(spec.type)) {
    made.dtype.erase(0, 1);
    made.shape.push_back(2);
  } else if (spec.type == element_type::cf32) {
    made.dtype = "c64";
  }
  return made;
}

std::size_t bytes_of_input(const request& accepted, std::size_t input) noexcept {
  return accepted.pipeline->buffers[input].pitch(accepted.leading) * accepted.frames;
}

std::size_t offset_of_input(const request& accepted, std::size_t input) noexcept {
  std::size_t offset = 0;
  for (std::size_t before = 0; before < input; ++before) {
    offset += wire::room_for(bytes_of_input(accepted, before));
  }
  return offset;
}

result_extent extent_of(const plan_buffer& output, std::int64_t steps_before, std::int64_t leading,
                        std::uint32_t frames) noexcept {
  std::int64_t each = leading;
  if (output.spec.variable) {
    const std::int64_t after = steps_before + leading * frames;
    each = (output.rate.total(after) - output.rate.total(steps_before)) / frames;
  }
  return {each, output.spec.bytes(each) * frames};
}

std::size_t result_header_bytes(const request& done) noexcept {
  return done.account ? wire::account_header_bytes_of(done.pipeline->outputs.size()) : wire::header_bytes;
}

void encode_account(const request& done, std::span<std::byte> out) noexcept {
  wire::encode(account_of_result(done), out);
  out = out.subspan(wire::sample_account_bytes);
  for (std::size_t output = 0; output < done.pipeline->outputs.size(); ++output) {
    wire::encode_output_index(index_of_output(done, output), out.subspan(output * sizeof(std::int64_t)));
  }
}

std::int64_t first_step_of(const request& accepted) noexcept {
  std::int64_t first = accepted.steps_before;
  for (const plan_output& output : accepted.pipeline->outputs) {
    first = std::min(first, output.timing.next(accepted.steps_before));
  }
  return first;
}

wire::sample_account account_of_result(const request& done) noexcept {
  wire::sample_account told = *done.account;
  if (done.filled_earlier != 0) {
    told.filled += std::min(done.filled_earlier, std::numeric_limits<std::uint32_t>::max() - told.filled);
    told.flags |= wire::sample_flag::filled;
    told.flags |= done.withheld_earlier ? wire::sample_flag::withheld : std::uint8_t{0};
  }
  return told;
}

// The sender may count from anywhere, so the sum wraps around.
std::int64_t index_of_output(const request& done, std::size_t output) noexcept {
  const std::int64_t steps = done.pipeline->outputs[output].timing.next(done.steps_before) - done.steps_before;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(done.account->index) + static_cast<std::uint64_t>(steps));
}

}  // namespace penstock
