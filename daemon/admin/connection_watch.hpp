#pragma once

#include <chrono>
#include <cstdint>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace penstock {

/// Looks every second at what connection_meter and connection_rate have counted: says in the log that connections were
/// cut or closed, the first at once and those that follow together, and gives memory back to the system once
/// connections have let go of some. Thread: the admin's.
class connection_watch {
 public:
  static constexpr std::chrono::seconds interval{1};
  static constexpr std::chrono::seconds between_lines{10};
  /// What is worth a walk through malloc's heaps.
  static constexpr std::uint64_t worth_returning = std::uint64_t{8} << 20U;

  /// `admin` outlives it.
  explicit connection_watch(boost::asio::io_context& admin);

 private:
  void look();
  void wait();

  boost::asio::steady_timer timer_;
  std::uint64_t cut_ = 0;     // told in the log
  std::uint64_t let_go_ = 0;  // and its memory given back
  bool trim_again_ = false;
  std::uint64_t too_often_ = 0;  // as well
  std::chrono::steady_clock::time_point told_{};
  std::chrono::steady_clock::time_point told_too_often_{};
};

}  // namespace penstock
