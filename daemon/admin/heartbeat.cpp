#include "daemon/admin/heartbeat.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/shard/shard.hpp"

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds longest_pause = std::chrono::seconds{5};
constexpr std::chrono::microseconds pause_in_a_drain = std::chrono::seconds{1};
constexpr int beats_in_a_timeout = 4;
// What a beat of a drain asks for: the next one comes long before.
constexpr std::chrono::microseconds extension = std::chrono::seconds{10};
// Beyond drain_timeout, for replies to go out.
constexpr std::chrono::seconds grace{5};

}  // namespace

heartbeat::heartbeat(boost::asio::io_context& admin, std::deque<shard_thread>& shards, service_manager& manager,
                     const settings& how, std::function<std::string()> silent_threads)
    : shards_(shards),
      manager_(manager),
      roll_call_(admin, shards),
      timer_(admin),
      watchdog_(how.wheel.hang_timeout),
      silent_threads_(std::move(silent_threads)),
      line_(clock::now()),
      drain_timeout_(how.daemon.drain_timeout) {
  if (manager_.present()) {
    beat();
  }
}

void heartbeat::adopt(const settings& how) {
  watchdog_.set_patience(how.wheel.hang_timeout);
  drain_timeout_ = how.daemon.drain_timeout;
}

void heartbeat::drain() {
  if (manager_.present() && !drain_until_) {
    drain_until_ = clock::now() + drain_timeout_ + grace;
    timer_.cancel();
  }
}

std::chrono::microseconds heartbeat::pause() const {
  const auto most = manager_.watchdog_timeout().value_or(beats_in_a_timeout * longest_pause) / beats_in_a_timeout;
  return std::min({most, longest_pause, drain_until_ ? pause_in_a_drain : longest_pause});
}

// Cancelled, as a drain does it, the wait is over too.
void heartbeat::wait() {
  timer_.expires_after(pause());
  timer_.async_wait([this](const boost::system::error_code&) { beat(); });
}

void heartbeat::beat() {
  roll_call_.ask<shard_pulse>(
      pause(), [](shard& asked) { return asked.pulse(); },
      [this](const std::vector<std::optional<shard_pulse>>& pulses) {
        take(pulses);
        wait();
      });
}

void heartbeat::take(const std::vector<std::optional<shard_pulse>>& pulses) {
  std::vector<shard_sign> signs;
  for (std::size_t number = 0; number < pulses.size(); ++number) {
    signs.push_back({shards_[number].has_ended(), pulses[number]});
  }
  watch(signs);
  const time_point now = clock::now();
  manager_.status(line_.write(now, signs, drain_until_.has_value()));
  if (drain_until_) {
    extend(now, signs);
  }
}

void heartbeat::watch(const std::vector<shard_sign>& signs) {
  std::string complaint = watchdog_.complaint(signs);
  if (complaint.empty() && !drain_until_) {
    complaint = silent_threads_();
  }
  if (complaint.empty()) {
    manager_.alive();
    if (!complaint_.empty()) {
      spdlog::info("alive again: every thread comes round, and devices finish batches");
    }
  } else if (complaint_.empty()) {
    spdlog::error("{}: if that lasts, the service manager's watchdog restarts the daemon", complaint);
  }
  complaint_ = std::move(complaint);
}

void heartbeat::extend(time_point now, const std::vector<shard_sign>& signs) {
  std::uint64_t unfinished = 0;
  for (const shard_sign& each : signs) {
    unfinished += each.pulse ? each.pulse->in_flight : 0;
  }
  const bool progress = unfinished < std::exchange(last_unfinished_, unfinished);
  if (progress || now < *drain_until_) {
    manager_.extend_timeout(extension);
  }
}

}  // namespace penstock
