#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace penstock::live {

/// rtl_tcp's wire: the server sends 12 bytes, then pairs of unsigned bytes, I and Q, 127.5 being 0, and nothing else. A
/// client may send commands. Integers are big-endian.
struct rtl_tcp_greeting {
  std::uint32_t tuner = 0;
  std::uint32_t gains = 0;  ///< how many gains the tuner has

  /// "R820T", ...; "unknown" for a number that has no name.
  [[nodiscard]] std::string_view tuner_name() const noexcept;
};
inline constexpr std::size_t rtl_tcp_greeting_bytes = 12;

/// The first bytes of a connection. nullopt where they don't begin with "RTL0" or are fewer than 12.
[[nodiscard]] std::optional<rtl_tcp_greeting> read_rtl_tcp_greeting(std::span<const std::byte> bytes) noexcept;

enum class rtl_tcp_command : std::uint8_t {
  frequency = 0x01,    ///< Hz
  sample_rate = 0x02,  ///< per second
  gain_mode = 0x03,    ///< 0 automatic, 1 by `gain`
  gain = 0x04,         ///< tenths of a dB
  correction = 0x05,   ///< ppm
  automatic_gain = 0x08,
};
using rtl_tcp_message = std::array<std::byte, 5>;
[[nodiscard]] rtl_tcp_message encode(rtl_tcp_command command, std::uint32_t value) noexcept;

}  // namespace penstock::live
