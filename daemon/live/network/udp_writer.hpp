#pragma once

#include <cstdint>
#include <string>

#include <sys/socket.h>

#include "base/descriptors.hpp"
#include "daemon/live/result_message.hpp"

namespace penstock::live {

struct udp_writer_settings {
  std::string to;                     ///< HOST:PORT, unicast or multicast
  bool has_numbers = false;           ///< before each datagram's items: its number, u64 little-endian, from 0
  std::size_t datagram_bytes = 1472;  ///< of items, at most
  bool drops = true;                  ///< what the socket has no room for
  std::size_t socket_buffer = std::size_t{4} << 20U;
};

/// Sends results as datagrams of whole items; an item that is longer than a datagram is cut. A datagram that the kernel
/// has no room for still has a number, so that the receiver sees the gap.
class udp_writer final : public result_writer {
 public:
  /// Throws std::runtime_error; what() names the address.
  explicit udp_writer(const udp_writer_settings& settings);

  [[nodiscard]] write_progress write(const result_message& message) override;
  void descriptors(std::vector<pollfd>& wanted) const override;
  [[nodiscard]] std::string_view failure() const override { return failure_; }

 private:
  const udp_writer_settings settings_;
  file_descriptor socket_;
  sockaddr_storage address_{};
  socklen_t address_bytes_ = 0;
  std::uint64_t number_ = 0;
  std::size_t sent_ = 0;  // of the message
  bool is_full_ = false;
  std::string failure_;
};

}  // namespace penstock::live
