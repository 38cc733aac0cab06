#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace penstock {

/// Looks every second at what connections did. The log says that some were cut or closed, the first at once and those
/// that follow together; and that descriptors are short, so that new connections are closed, when that begins and when
/// it has been over for a while. Memory goes back to the system once connections have let go of some. Thread: the
/// admin's.
class connection_watch {
 public:
  static constexpr std::chrono::seconds interval{1};
  static constexpr std::chrono::seconds between_lines{10};
  /// What is worth a walk through malloc's heaps.
  static constexpr std::uint64_t worth_returning = std::uint64_t{8} << 20U;
  /// Connections that come and go at the limit of descriptors are one shortage.
  static constexpr std::chrono::seconds quiet{3};

  /// `admin` outlives it.
  explicit connection_watch(boost::asio::io_context& admin);

  /// Says that descriptors are short; "" when they are not.
  [[nodiscard]] std::string shortage();

 private:
  using time_point = std::chrono::steady_clock::time_point;

  void wait();
  void look_at_closed(time_point now);
  void look_at_memory();
  void look_at_descriptors(time_point now);

  boost::asio::steady_timer timer_;
  std::uint64_t cut_ = 0;        // told in the log
  std::uint64_t too_often_ = 0;  // as well
  time_point told_cut_{};
  time_point told_too_often_{};
  std::uint64_t let_go_ = 0;  // bytes whose memory was given back
  bool trim_again_ = false;
  std::uint64_t turned_away_;         // when it was last looked at
  std::uint64_t turned_away_before_;  // when the shortage began
  bool short_ = false;
  time_point short_at_{};
};

}  // namespace penstock
