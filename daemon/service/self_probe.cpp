#include "daemon/service/self_probe.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;

// While connections are made: one waits for the answer to the one before, so that ZeroMQ has counted that.
constexpr std::chrono::milliseconds between_connections{20};
// Over ipc no firewall and no address is in between.
std::string easiest(const std::vector<std::string>& endpoints) {
  const auto found = std::find_if(endpoints.begin(), endpoints.end(),
                                  [](const std::string& each) { return each.starts_with("ipc://"); });
  return found != endpoints.end() ? *found : endpoints.front();
}

}  // namespace

self_probe::self_probe(boost::asio::io_context& admin, std::deque<shard_thread>& shards, const keyring* keys)
    : shards_(shards), keys_(keys), timer_(admin) {}

self_probe::~self_probe() = default;

void self_probe::add_shard(std::uint32_t number, const std::vector<std::string>& endpoints, int io_threads) {
  if (!endpoints.empty()) {
    planned_.push_back({number, easiest(endpoints), io_threads <= 1 ? 1 : 2 * io_threads});
  }
}

void self_probe::add_thread(std::string name, asking ask, std::function<bool()> works) {
  beat& made = beats_.emplace_back();
  made.name = std::move(name);
  made.ask = std::move(ask);
  made.works = std::move(works);
  made.answered = std::make_shared<std::atomic<bool>>(true);
  made.heard = clock::now();
}

void self_probe::add_rounds(std::string name, std::function<std::uint64_t()> rounds, std::function<bool()> ended) {
  beat& made = beats_.emplace_back();
  made.name = std::move(name);
  made.rounds = std::move(rounds);
  made.ended = std::move(ended);
  made.heard = clock::now();
}

void self_probe::start() {
  look();
}

void self_probe::look() {
  const time_point now = clock::now();
  for (beat& each : beats_) {
    look_at(each, now);
  }
  for (connection& each : connections_) {
    look_at(each, now);
  }
  connect_next();
  const bool all_made = planned_.empty() && (connections_.empty() || connections_.back().answered || now >= give_up_);
  timer_.expires_after(all_made ? std::chrono::milliseconds(interval) : between_connections);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      look();
    }
  });
}

void self_probe::look_at(beat& watched, time_point now) {
  if (watched.rounds) {
    const std::uint64_t rounds = watched.rounds();
    if (rounds != std::exchange(watched.last_rounds, rounds) || watched.ended()) {
      watched.heard = now;
    }
  } else if (watched.answered->load()) {
    watched.heard = now;
    watched.answered->store(false);
    watched.ask([answered = watched.answered] { answered->store(true); });
  }
}

void self_probe::look_at(connection& watched, time_point now) {
  if (watched.link.answered()) {
    watched.heard = now;
    watched.answered = true;
  }
  if (shards_[watched.shard].has_ended()) {
    watched.heard = now;
  } else {
    watched.link.ping(++asked_);
  }
}

void self_probe::connect_next() {
  const time_point now = clock::now();
  if (!connections_.empty() && !connections_.back().answered && !connections_.back().given_up) {
    if (now < give_up_) {
      return;
    }
    connections_.back().given_up = true;
    spdlog::warn("the daemon gets no answer from itself on {}: whether ZeroMQ's threads come round is not known there",
                 connections_.back().endpoint);
  }
  if (planned_.empty()) {
    return;
  }
  planned& next = planned_.back();
  try {
    connections_.push_back({next.shard, next.endpoint, client_.connect(next.endpoint, keys_), false, false, now});
  } catch (const std::runtime_error& error) {
    spdlog::warn("the daemon can't connect to itself on {}: {}", next.endpoint, error.what());
    planned_.pop_back();
    return;
  }
  give_up_ = now + late;
  if (--next.connections == 0) {
    planned_.pop_back();
  }
}

std::string self_probe::complaint(std::chrono::seconds longer_than) const {
  const time_point now = clock::now();
  std::vector<std::string> silent;
  for (const beat& each : beats_) {
    const bool works = each.works && each.works();
    if (now - each.heard > longer_than + (works ? longest_work : std::chrono::seconds{0})) {
      silent.push_back(each.name);
    }
  }
  for (const connection& each : connections_) {
    std::string name = fmt::format("an I/O thread of shard {} ({})", each.shard, each.endpoint);
    if (each.answered && now - each.heard > longer_than && (silent.empty() || silent.back() != name)) {
      silent.push_back(std::move(name));
    }
  }
  return silent.empty() ? "" : fmt::format("no sign for {} s from {}", longer_than.count(), fmt::join(silent, ", "));
}

}  // namespace penstock
