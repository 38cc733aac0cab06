#include "daemon/admin/descriptor_shortage.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "daemon/socket/descriptors.hpp"

namespace penstock {

using clock = std::chrono::steady_clock;

descriptor_shortage::descriptor_shortage(boost::asio::io_context& admin)
    : timer_(admin), turned_away_(connections_turned_away()), turned_away_before_(turned_away_) {
  wait();
}

void descriptor_shortage::wait() {
  timer_.expires_after(interval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      look();
      wait();
    }
  });
}

void descriptor_shortage::look() {
  const clock::time_point now = clock::now();
  const std::uint64_t turned_away = connections_turned_away();
  if (turned_away != turned_away_ || descriptors_are_short()) {
    seen_ = now;
    if (!short_) {
      short_ = true;
      turned_away_before_ = turned_away_;
      spdlog::error(
          "descriptors are short: of {} that may be open only the daemon's last are free; new connections are "
          "closed (raise LimitNOFILE, look for strangers at the port)",
          descriptor_limit());
    }
  } else if (short_ && now - seen_ >= quiet) {
    short_ = false;
    spdlog::info("descriptors are free again; {} connections were closed meanwhile", turned_away - turned_away_before_);
  }
  turned_away_ = turned_away;
}

std::string descriptor_shortage::complaint() {
  look();
  return short_ ? fmt::format("descriptors are short ({} may be open): new connections are closed", descriptor_limit())
                : "";
}

}  // namespace penstock
