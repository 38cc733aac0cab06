#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {

enum class daemon_state : std::uint8_t { starting, ready, draining };

/// "starting", "ready", "draining".
[[nodiscard]] constexpr std::string_view name_of(daemon_state state) noexcept {
  constexpr std::array<std::string_view, 3> names{"starting", "ready", "draining"};
  return names[static_cast<std::size_t>(state)];
}

}  // namespace penstock
