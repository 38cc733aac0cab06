#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

/// A name or a text of a file as a message may show it, whoever wrote the file: bytes that are no printable UTF-8 as
/// \xNN, which no terminal acts upon, and the first `longest` bytes with "…" behind them.
[[nodiscard]] std::string printable(std::string_view text, std::size_t longest = 120);

}  // namespace penstock
