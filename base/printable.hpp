#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

/// Makes text from an untrusted file safe to show: bytes that are not printable UTF-8 become \xNN, so that no terminal
/// acts on them, and what is longer than `longest` bytes ends with "…".
[[nodiscard]] std::string printable(std::string_view text, std::size_t longest = 120);

}  // namespace penstock
