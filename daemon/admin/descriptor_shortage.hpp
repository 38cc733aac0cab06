#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace penstock {

/// Looks every second whether descriptors are short, so that new connections are closed; says in the log when that
/// begins and when it has been over for a while. Thread: the admin's.
class descriptor_shortage {
 public:
  static constexpr std::chrono::seconds interval{1};
  /// Connections that come and go at the limit are one shortage.
  static constexpr std::chrono::seconds quiet{3};

  /// `admin` outlives it.
  explicit descriptor_shortage(boost::asio::io_context& admin);

  /// What is short; "" when nothing is.
  [[nodiscard]] std::string complaint();

 private:
  void look();
  void wait();

  boost::asio::steady_timer timer_;
  std::uint64_t turned_away_;         // when it was last looked at
  std::uint64_t turned_away_before_;  // when the shortage began
  bool short_ = false;
  std::chrono::steady_clock::time_point seen_{};
};

}  // namespace penstock
