#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace penstock {

/// What systemd, or whoever else started the daemon with a NOTIFY_SOCKET, is told (sd_notify(3)). Without one, every
/// member does nothing. Thread: the admin's.
///
/// The variable stays in the environment: libsystemd reads it for each message, and taking it out would race with the
/// driver's threads, which read the environment too. What a process that the driver starts would send is refused by
/// the unit's NotifyAccess=main.
class service_manager {
 public:
  /// Before other threads start: takes the watchdog's variables out of the environment.
  service_manager();

  [[nodiscard]] bool present() const noexcept { return present_; }
  /// How long the manager waits for `alive` before it restarts the daemon; nothing when it does not.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog_timeout() const noexcept { return watchdog_; }

  /// The start is done; or the reload is.
  void ready();
  /// One line for people, which `systemctl status` shows.
  void status(const std::string& line);
  /// Feeds the watchdog.
  void alive();
  /// A reload begins; `ready` ends it, whatever came of it.
  void reloading();
  /// The stop begins, by whomever it was asked for.
  void stopping();
  /// The start or stop under way may take this much longer from now, beyond the timeout of the unit.
  void extend_timeout(std::chrono::microseconds by);

 private:
  void tell(const std::string& message);

  bool present_;
  bool unheard_ = false;  // the last message did not arrive, and that is in the log
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace penstock
