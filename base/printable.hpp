#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

/// Makes text from an untrusted file safe to show: bytes that are not printable UTF-8 become \xNN, so that no terminal
/// acts on them, and what is longer than `longest` bytes ends with "…".
[[nodiscard]] std::string printable(std::string_view text, std::size_t longest = 120);

/// A name made of bytes that a peer chose, of at most `longest` bytes: those that are not printable UTF-8 become "_",
/// and no character is cut.
[[nodiscard]] std::string printable_name(std::string_view text, std::size_t longest);

}  // namespace penstock
