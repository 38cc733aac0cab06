#pragma once

#include <cstdint>

#include "daemon/live/wire/vita49.hpp"

namespace penstock::live {

/// DIFI (IEEE-ISTO 4900), versions 1.0 to 1.2: a profile of VITA-49. Every packet has a stream and a class id with the
/// consortium's OUI, and a time of seconds and a fraction; TSI "other" is POSIX time. Data has no trailer.
enum class difi_packet : std::uint8_t {
  data,      ///< type 1, packet class 0
  context,   ///< type 4, packet class 1
  version,   ///< type 5, packet class 4
  command,   ///< type 6: nothing that a receiver of samples needs
  not_difi,  ///< a VITA-49 packet that the profile does not allow
};

inline constexpr std::uint32_t difi_oui = 0x6A621E;

/// What a packet that was read is to DIFI.
[[nodiscard]] difi_packet classify_difi(const vita_packet& packet) noexcept;

}  // namespace penstock::live
