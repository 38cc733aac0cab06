#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// The candidate that takes the fewest edits (a letter added, dropped, replaced, or swapped with the next one) to reach
/// from `given`, case aside; the first of equals. Empty when none is near enough to be a slip of the hand.
[[nodiscard]] std::string_view nearest_name(std::string_view given, std::span<const std::string_view> candidates);

/// The end of an error on an unknown name: "; did you mean 'streams'?", else "; known: a, b, c", else "".
[[nodiscard]] std::string suggestion(std::string_view given, std::span<const std::string_view> candidates);

}  // namespace penstock
