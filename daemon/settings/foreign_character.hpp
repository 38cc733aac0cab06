#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

/// The first line (from 1) of a TOML text on which a character outside ASCII stands neither in a comment nor in a
/// one-line string: TOML allows it nowhere else, but for multi-line strings, which the configuration has no use for.
///
/// toml++ must not see such text: some of it runs the parser into undefined behaviour (marzer/tomlplusplus #190, #295).
[[nodiscard]] std::optional<std::uint32_t> line_of_foreign_character(std::string_view text) noexcept;

/// Whether a text is of 2 or 4 bytes a character, as some editors save it: by its byte order mark, or by a zero byte
/// among its first two.
[[nodiscard]] bool is_wide_text(std::string_view text) noexcept;

}  // namespace penstock
