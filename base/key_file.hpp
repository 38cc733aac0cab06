#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace penstock {

/// The text of files of CURVE keys, as `penstock keygen` writes them: a key is 40 letters of Z85 (ZeroMQ's RFC 32). A
/// comment begins with "#", as no key does: in Z85 that would be a number beyond 32 bits.
inline constexpr std::size_t key_letters = 40;

/// Whether the text can be a key: its length and its letters are right.
[[nodiscard]] bool is_key_text(std::string_view text) noexcept;

/// Takes the next line that is neither empty nor a comment off the beginning of a text, without blanks at its ends.
/// `number` counts all lines that were taken. Nothing when there is no such line.
[[nodiscard]] std::optional<std::string_view> take_key_line(std::string_view& text, std::size_t& number) noexcept;

/// The key in the text of a file of one key; nothing when it holds none, several, or anything else.
[[nodiscard]] std::optional<std::string_view> only_key(std::string_view text) noexcept;

}  // namespace penstock
