#pragma once

#include <optional>
#include <string_view>

#include "proto/data_type.hpp"

namespace penstock::link {

/// "u8", "i8", "i16", "i32", "f32", "c64"; "" for any other type.
[[nodiscard]] std::string_view name_of(const wire::data_type& type) noexcept;
[[nodiscard]] std::optional<wire::data_type> dtype_of(std::string_view name) noexcept;

}  // namespace penstock::link
