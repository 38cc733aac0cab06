#include "daemon/admin/connection_watch.hpp"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include "daemon/socket/connection_meter.hpp"
#include "daemon/socket/connection_rate.hpp"

namespace penstock {

connection_watch::connection_watch(boost::asio::io_context& admin) : timer_(admin) {
  wait();
}

void connection_watch::wait() {
  timer_.expires_after(interval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      look();
      wait();
    }
  });
}

void connection_watch::look() {
  const auto now = std::chrono::steady_clock::now();
  const std::uint64_t cut = connections_cut();
  if (cut != cut_ && now - told_ >= between_lines) {
    spdlog::warn("cut {} {}: what came was more than they may send ahead, or no ZMTP 3 of a client", cut - cut_,
                 cut - cut_ == 1 ? "connection" : "connections");
    cut_ = cut;
    told_ = now;
  }
  const std::uint64_t too_often = connections_too_often();
  if (too_often != too_often_ && now - told_too_often_ >= between_lines) {
    spdlog::warn("closed {} {} at once: they came too often, from one process or address or all together",
                 too_often - too_often_, too_often - too_often_ == 1 ? "connection" : "connections");
    too_often_ = too_often;
    told_too_often_ = now;
  }
  const std::uint64_t let_go = bytes_let_go();
  // libzmq frees what a connection held some time after it has closed it: once more a second later.
  const bool more = let_go - let_go_ >= worth_returning;
  if (more || trim_again_) {
    ::malloc_trim(0);
    let_go_ = let_go;
  }
  trim_again_ = more;
}

}  // namespace penstock
