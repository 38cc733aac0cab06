#include "daemon/live/wire/rtl_tcp.hpp"

#include "daemon/live/wire/byte_order.hpp"

namespace penstock::live {

std::string_view rtl_tcp_greeting::tuner_name() const noexcept {
  constexpr std::array<std::string_view, 7> names{"unknown", "E4000", "FC0012", "FC0013", "FC2580", "R820T", "R828D"};
  return tuner < names.size() ? names[tuner] : names.front();
}

std::optional<rtl_tcp_greeting> read_rtl_tcp_greeting(std::span<const std::byte> bytes) noexcept {
  constexpr std::uint32_t name = 0x52544C30;  // "RTL0"
  byte_reader in(bytes);
  const auto first = in.big<std::uint32_t>();
  rtl_tcp_greeting read;
  read.tuner = in.big<std::uint32_t>();
  read.gains = in.big<std::uint32_t>();
  return in.failed() || first != name ? std::nullopt : std::optional(read);
}

rtl_tcp_message encode(rtl_tcp_command command, std::uint32_t value) noexcept {
  rtl_tcp_message message{static_cast<std::byte>(command)};
  const std::uint32_t big = swapped(value);
  std::memcpy(message.data() + 1, &big, sizeof big);
  return message;
}

}  // namespace penstock::live
