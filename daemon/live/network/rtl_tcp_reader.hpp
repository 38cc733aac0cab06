#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptors.hpp"
#include "daemon/live/sample_stream.hpp"
#include "daemon/live/wire/rtl_tcp.hpp"

namespace penstock::live {

struct rtl_tcp_settings {
  std::string server;  ///< "HOST:PORT"; HOST may be a name, or an IPv6 address in brackets
  /// What the dongle is told to do; absent: it stays as it is.
  std::optional<std::uint32_t> sample_rate{};
  std::optional<std::uint32_t> frequency{};
  std::chrono::nanoseconds patience = std::chrono::seconds{5};  ///< for the connection and the greeting
  std::string stream_name = "rtl_tcp";
};

/// Reads the samples of an rtl_tcp server, pairs of unsigned bytes. The server drops what is not taken from it, and
/// says nothing of it. When the connection ends, `read` fails; the source makes another reader after a pause, which
/// begins an epoch.
class rtl_tcp_reader final : public sample_reader {
 public:
  /// Begins to connect. Throws std::runtime_error: no such host, no route.
  rtl_tcp_reader(const rtl_tcp_settings& settings, time_point now);
  rtl_tcp_reader(const rtl_tcp_reader&) = delete;
  rtl_tcp_reader& operator=(const rtl_tcp_reader&) = delete;
  ~rtl_tcp_reader() override = default;

  void descriptors(std::vector<pollfd>& wanted) const override;
  [[nodiscard]] read_progress read(sample_receiver& receiver, time_point now, time_point until) override;
  [[nodiscard]] time_point wanted_at() const override;
  [[nodiscard]] std::string_view failure() const override { return failure_; }

  /// What the server said; absent before.
  [[nodiscard]] const std::optional<rtl_tcp_greeting>& greeting() const noexcept { return greeting_; }

 private:
  enum class state_of : std::uint8_t { connecting, greeting, streaming };

  read_progress fail(sample_receiver& receiver, const std::string& why);
  [[nodiscard]] bool is_connected(sample_receiver& receiver, read_progress& progress);
  [[nodiscard]] bool is_greeted(sample_receiver& receiver, read_progress& progress);
  void tell_dongle();

  rtl_tcp_settings settings_;
  file_descriptor socket_;
  state_of state_ = state_of::connecting;
  time_point deadline_;
  std::array<std::byte, rtl_tcp_greeting_bytes> first_{};
  std::size_t first_bytes_ = 0;
  std::optional<rtl_tcp_greeting> greeting_;
  stream_number stream_ = 0;
  std::vector<std::byte> memory_;
  std::optional<std::byte> half_;  // of a sample
  std::string failure_;
};

}  // namespace penstock::live
