#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock::wire {

/// How much JSON a reader takes from a peer. Everything else is refused before memory is asked for it.
struct json_bounds {
  std::size_t bytes = 0;
  std::size_t depth = 0;   ///< of nested objects and arrays
  std::size_t values = 0;  ///< texts, numbers, flags, nulls, objects and arrays together
};

/// What a client may ask with: HELLO, OPEN, ATTACH.
inline constexpr json_bounds request_bounds{.bytes = 4096, .depth = 8, .values = 64};
/// What a daemon may answer with: WELCOME, STATUS, TRACE, ERROR and the rest.
inline constexpr json_bounds answer_bounds{.bytes = 65536, .depth = 16, .values = 32768};

/// Reads one JSON value, in a time that grows with its bytes alone: looking up a key takes the logarithm of their
/// number, and of a key that comes twice the last one counts. nullopt when it is no JSON or is beyond the bounds.
/// Throws std::bad_alloc, which says nothing of the text.
[[nodiscard]] std::optional<nlohmann::json> read_json(std::string_view text, const json_bounds& most);

}  // namespace penstock::wire
