#include "client/cpp/wire_dtype.hpp"

#include <array>
#include <utility>

namespace penstock::link {
namespace {

constexpr std::array<std::pair<std::string_view, wire::data_type>, 6> dtypes{{
    {"u8", wire::uint8_type},
    {"i8", wire::int8_type},
    {"i16", wire::int16_type},
    {"i32", wire::int32_type},
    {"f32", wire::float32_type},
    {"c64", wire::complex64_type},
}};

}  // namespace

std::string_view name_of(const wire::data_type& type) noexcept {
  for (const auto& [name, each] : dtypes) {
    if (each == type) {
      return name;
    }
  }
  return "";
}

std::optional<wire::data_type> dtype_of(std::string_view name) noexcept {
  for (const auto& [each, type] : dtypes) {
    if (each == name) {
      return type;
    }
  }
  return std::nullopt;
}

}  // namespace penstock::link
