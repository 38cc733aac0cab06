#include "kernels/tensor.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace penstock {
namespace {

struct element_facts {
  element_type type;
  std::string_view name;
  std::size_t bytes;
  bool complex;
  bool floating;
};

/// In the order of element_type.
constexpr std::array<element_facts, element_types> all_elements{{
    {element_type::u8, "u8", 1, false, false},
    {element_type::i8, "i8", 1, false, false},
    {element_type::i16, "i16", 2, false, false},
    {element_type::i32, "i32", 4, false, false},
    {element_type::f32, "f32", 4, false, true},
    {element_type::cf32, "cf32", 8, true, true},
    {element_type::cu8, "cu8", 2, true, false},
    {element_type::ci8, "ci8", 2, true, false},
    {element_type::ci16, "ci16", 4, true, false},
    {element_type::u16, "u16", 2, false, false},
    {element_type::i64, "i64", 8, false, false},
    {element_type::f16, "f16", 2, false, true},
    {element_type::bf16, "bf16", 2, false, true},
    {element_type::f64, "f64", 8, false, true},
    {element_type::boolean, "bool", 1, false, false},
}};

const element_facts& facts_of(element_type type) noexcept {
  return all_elements[static_cast<std::size_t>(type)];
}

}  // namespace

std::size_t size_of(element_type type) noexcept {
  return facts_of(type).bytes;
}

std::string_view name_of(element_type type) noexcept {
  return facts_of(type).name;
}

std::optional<element_type> element_type_of(std::string_view name) noexcept {
  const auto* const found = std::find_if(all_elements.begin(), all_elements.end(),
                                         [name](const element_facts& facts) { return facts.name == name; });
  if (found == all_elements.end()) {
    return std::nullopt;
  }
  return found->type;
}

bool is_complex(element_type type) noexcept {
  return facts_of(type).complex;
}

bool is_floating(element_type type) noexcept {
  return facts_of(type).floating;
}

std::int64_t tensor_spec::elements() const noexcept {
  return elements(shape.front());
}

std::int64_t tensor_spec::elements(std::int64_t leading) const noexcept {
  std::int64_t product = variable ? leading : shape.front();
  for (std::size_t axis = 1; axis < shape.size(); ++axis) {
    product *= shape[axis];
  }
  return product;
}

std::size_t tensor_spec::bytes() const noexcept {
  return bytes(shape.front());
}

std::size_t tensor_spec::bytes(std::int64_t leading) const noexcept {
  return static_cast<std::size_t>(elements(leading)) * size_of(type);
}

std::string tensor_spec::text() const {
  std::string written{name_of(type)};
  written += variable ? "[max " : "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    written += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  }
  return written + "]";
}

frame_rows::frame_rows(const tensor_spec& spec) noexcept
    : length_{spec.shape.back()},
      variable_length_{spec.variable && spec.shape.size() == 1},
      variable_count_{spec.variable && spec.shape.size() > 1} {
  if (spec.shape.size() > 1) {
    leading_ = spec.shape.front();
  }
  for (std::size_t axis = 1; axis + 1 < spec.shape.size(); ++axis) {
    inner_ *= spec.shape[axis];
  }
}

}  // namespace penstock
