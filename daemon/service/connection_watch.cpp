#include "daemon/service/connection_watch.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include "base/process_limits.hpp"
#include "daemon/net/connection_limits.hpp"

namespace penstock {

using clock = std::chrono::steady_clock;

connection_watch::connection_watch(boost::asio::io_context& admin)
    : timer_(admin), turned_away_(connections_turned_away()), turned_away_before_(turned_away_) {
  wait();
}

void connection_watch::wait() {
  timer_.expires_after(interval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      const time_point now = clock::now();
      look_at_closed(now);
      look_at_memory();
      look_at_descriptors(now);
      wait();
    }
  });
}

void connection_watch::look_at_closed(time_point now) {
  const std::uint64_t cut = connections_cut();
  if (cut != cut_ && now - told_cut_ >= between_lines) {
    spdlog::warn("cut {} {}: what came was more than they may send ahead, or no ZMTP 3 of a client", cut - cut_,
                 cut - cut_ == 1 ? "connection" : "connections");
    cut_ = cut;
    told_cut_ = now;
  }
  const std::uint64_t too_often = connections_too_often();
  if (too_often != too_often_ && now - told_too_often_ >= between_lines) {
    spdlog::warn("closed {} {} at once: they came too often, from one process or address or all together",
                 too_often - too_often_, too_often - too_often_ == 1 ? "connection" : "connections");
    too_often_ = too_often;
    told_too_often_ = now;
  }
}

// libzmq frees what a connection held some time after it has closed it: once more a second later.
void connection_watch::look_at_memory() {
  const std::uint64_t let_go = bytes_let_go();
  const bool more = let_go - let_go_ >= worth_returning;
  if (more || trim_again_) {
    ::malloc_trim(0);
    let_go_ = let_go;
  }
  trim_again_ = more;
}

void connection_watch::look_at_descriptors(time_point now) {
  const std::uint64_t turned_away = connections_turned_away();
  if (turned_away != turned_away_ || descriptors_are_short()) {
    short_at_ = now;
    if (!short_) {
      short_ = true;
      turned_away_before_ = turned_away_;
      spdlog::error(
          "descriptors are short: of {} that may be open only the daemon's last are free; new connections are "
          "closed (raise LimitNOFILE, look for strangers at the port)",
          descriptor_limit());
    }
  } else if (short_ && now - short_at_ >= quiet) {
    short_ = false;
    spdlog::info("descriptors are free again; {} connections were closed meanwhile", turned_away - turned_away_before_);
  }
  turned_away_ = turned_away;
}

std::string connection_watch::shortage() {
  look_at_descriptors(clock::now());
  return short_ ? fmt::format("descriptors are short ({} may be open): new connections are closed", descriptor_limit())
                : "";
}

}  // namespace penstock
