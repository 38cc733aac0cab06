#include "daemon/admin/service_manager.hpp"

#include <cstdint>
#include <cstdlib>
#include <system_error>

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

namespace penstock {
namespace {

constexpr int unset_environment = 1;

}  // namespace

service_manager::service_manager() : present_(std::getenv("NOTIFY_SOCKET") != nullptr) {
  std::uint64_t timeout_us = 0;
  if (::sd_watchdog_enabled(unset_environment, &timeout_us) > 0 && present_) {
    watchdog_ = std::chrono::microseconds(static_cast<std::int64_t>(timeout_us));
  }
}

void service_manager::ready() {
  tell("READY=1");
}

void service_manager::status(const std::string& line) {
  tell("STATUS=" + line);
}

void service_manager::alive() {
  tell("WATCHDOG=1");
}

// The manager reads CLOCK_MONOTONIC, which is what steady_clock is here.
void service_manager::reloading() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  tell("RELOADING=1\nMONOTONIC_USEC=" +
       std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count()));
}

void service_manager::stopping() {
  tell("STOPPING=1\nSTATUS=draining");
}

void service_manager::extend_timeout(std::chrono::microseconds by) {
  tell("EXTEND_TIMEOUT_USEC=" + std::to_string(by.count()));
}

void service_manager::tell(const std::string& message) {
  if (!present_) {
    return;
  }
  const int sent = ::sd_notify(0, message.c_str());
  if (sent < 0 && !unheard_) {
    spdlog::warn("the service manager can't be told anything: {}; it may take the daemon for hung",
                 std::generic_category().message(-sent));
  }
  unheard_ = sent < 0;
}

}  // namespace penstock
