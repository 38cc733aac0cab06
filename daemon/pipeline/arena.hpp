#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace penstock {

/// Offsets of device buffers are multiples of this.
inline constexpr std::size_t arena_alignment = 256;

/// `bytes` rounded up to a multiple of arena_alignment. Throws std::length_error when that does not fit a size_t.
[[nodiscard]] std::size_t arena_aligned(std::size_t bytes);

/// A buffer that wants a place: how large it is, and from which step to which (both included) its contents matter.
struct arena_request {
  std::size_t bytes = 0;
  std::size_t first_step = 0;
  std::size_t last_step = 0;
};

struct arena_placement {
  std::vector<std::size_t> offsets;  ///< one for each request, in its order
  std::size_t bytes = 0;             ///< a multiple of arena_alignment
};

/// Gives every request a place in one arena. Two requests that share a step never overlap; others may. The first
/// request lies at offset 0; so does one of no bytes. Pure, and the same for the same requests.
/// Throws std::length_error when the arena would not fit a size_t.
///
/// The largest are placed first, each at the lowest offset that is free for as long as it lives; then orders that
/// differ in two places are tried, as long as that makes the arena smaller.
[[nodiscard]] arena_placement place_in_arena(std::span<const arena_request> requests);

}  // namespace penstock
