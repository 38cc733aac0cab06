#include "daemon/service/systemd.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include "daemon/shard/shard.hpp"

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

void service_manager::extend_timeout(std::chrono::microseconds time) {
  tell("EXTEND_TIMEOUT_USEC=" + std::to_string(time.count()));
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

std::string watchdog::complaint(const std::vector<shard_sign>& shards) const {
  for (std::size_t number = 0; number < shards.size(); ++number) {
    const shard_sign& each = shards[number];
    if (each.ended) {
      continue;
    }
    if (!each.pulse) {
      return fmt::format("shard {} does not answer", number);
    }
    if (each.pulse->standing_still > patience_) {
      return fmt::format("the device of shard {} has finished no batch for {} s", number,
                         std::chrono::duration_cast<std::chrono::seconds>(each.pulse->standing_still).count());
    }
  }
  return "";
}

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
                     const settings& settings, std::function<std::string()> silent_threads)
    : shards_(shards),
      manager_(manager),
      shard_query_(admin, shards),
      timer_(admin),
      watchdog_(settings.stream_pool.hang_timeout),
      silent_threads_(std::move(silent_threads)),
      line_(clock::now()),
      drain_timeout_(settings.daemon.drain_timeout) {
  if (manager_.present()) {
    beat();
  }
}

void heartbeat::adopt(const settings& settings) {
  watchdog_.set_patience(settings.stream_pool.hang_timeout);
  drain_timeout_ = settings.daemon.drain_timeout;
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
  shard_query_.ask<shard_pulse>(
      pause(), [](shard& shard) { return shard.pulse(); },
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

namespace {

// 15234 → "15 234"
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t digits = 3; digits < text.size(); digits += 4) {
    text.insert(text.size() - digits, 1, ' ');
  }
  return text;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

}  // namespace

std::string status_line::write(time_point now, const std::vector<shard_sign>& shards, bool draining) {
  known_.resize(shards.size());
  std::uint64_t results = 0;
  std::size_t silent = 0;
  shard_pulse all;
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (const std::optional<shard_pulse>& pulse = shards[number].pulse) {
      results += pulse->results - known_[number].results;
      known_[number] = *pulse;
    } else if (shards[number].ended) {
      known_[number].in_flight = 0;
    } else {
      ++silent;
    }
    all.in_flight += known_[number].in_flight;
    all.clients += known_[number].clients;
    all.pipelines = std::max(all.pipelines, known_[number].pipelines);
  }
  const double seconds = std::chrono::duration<double>(now - std::exchange(then_, now)).count();
  const auto rate = seconds > 0 ? std::llround(static_cast<double>(results) / seconds) : 0;
  const std::string silence = silent == 0 ? "" : fmt::format(" ({} of them silent)", silent);
  if (draining) {
    return fmt::format("draining: {} in flight, {}{}", counted(all.in_flight, "request"),
                       counted(shards.size(), "shard"), silence);
  }
  return fmt::format("serving {}: {} results/s, {}, {}{}", counted(all.pipelines, "pipeline"),
                     grouped(static_cast<std::uint64_t>(rate)), counted(all.clients, "client"),
                     counted(shards.size(), "shard"), silence);
}

}  // namespace penstock
