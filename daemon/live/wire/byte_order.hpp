#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace penstock::live {

static_assert(std::endian::native == std::endian::little, "samples are handed on in the order of this machine");

/// The integer with its bytes in the other order.
template <std::unsigned_integral Integer>
[[nodiscard]] constexpr Integer swapped(Integer value) noexcept {
  if constexpr (sizeof value == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof value == 4) {
    return __builtin_bswap32(value);
  } else if constexpr (sizeof value == 8) {
    return __builtin_bswap64(value);
  } else {
    return value;
  }
}

/// Takes integers off the front of untrusted bytes. Past the end everything is 0, and `failed` says so from then on:
/// look at it before the values are used.
class byte_reader {
 public:
  explicit byte_reader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  template <std::unsigned_integral Integer>
  [[nodiscard]] Integer little() noexcept {
    Integer value = 0;
    if (const std::span<const std::byte> bytes = take(sizeof value); !bytes.empty()) {
      std::memcpy(&value, bytes.data(), sizeof value);
    }
    return value;
  }
  template <std::unsigned_integral Integer>
  [[nodiscard]] Integer big() noexcept {
    return swapped(little<Integer>());
  }
  /// The next `count` bytes; empty where there are fewer.
  [[nodiscard]] std::span<const std::byte> take(std::size_t count) noexcept {
    if (failed_ || count > rest_.size()) {
      failed_ = true;
      return {};
    }
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return rest_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

/// Turns numbers of `width` bytes (1, 2, 4 or 8) round where they lie. A rest shorter than a number stays as it is.
template <std::unsigned_integral Integer>
void swap_numbers(std::span<std::byte> bytes) noexcept {
  for (std::size_t at = 0; at + sizeof(Integer) <= bytes.size(); at += sizeof(Integer)) {
    Integer value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    value = swapped(value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}
inline void swap_numbers(std::span<std::byte> bytes, std::size_t width) noexcept {
  switch (width) {
    case 2:
      return swap_numbers<std::uint16_t>(bytes);
    case 4:
      return swap_numbers<std::uint32_t>(bytes);
    case 8:
      return swap_numbers<std::uint64_t>(bytes);
    default:
      return;
  }
}

}  // namespace penstock::live
