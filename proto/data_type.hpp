#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::wire {

/// A DLPack data type: code 0 = int, 1 = uint, 2 = float, 5 = complex; bits of one lane; lanes.
struct data_type {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;

  bool operator==(const data_type&) const = default;
  /// Bytes of one element; 0 when bits × lanes is not a whole number of bytes.
  [[nodiscard]] std::size_t item_bytes() const noexcept;
};

inline constexpr data_type uint8_type{1, 8, 1};
inline constexpr data_type int8_type{0, 8, 1};
inline constexpr data_type int16_type{0, 16, 1};
inline constexpr data_type int32_type{0, 32, 1};
inline constexpr data_type float32_type{2, 32, 1};
inline constexpr data_type complex64_type{5, 64, 1};

}  // namespace penstock::wire
