#include "tests/bench/quick.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "tests/bench/closed_loop.hpp"
#include "tests/bench/hand_server.hpp"
#include "tests/bench/servers.hpp"
#include "tests/bench/shared_loop.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using std::chrono::milliseconds;
using testing::daemon_process;

constexpr milliseconds turn_span{400};
constexpr milliseconds warm_up_span{150};

/// Contenders that take turns under one load. The constructor only starts child processes: a fork copies the locks of
/// threads. So all trials are made before the first one connects.
class trial {
 public:
  trial() = default;
  trial(const trial&) = delete;
  trial& operator=(const trial&) = delete;
  virtual ~trial() = default;

  /// Connects and warms up.
  virtual void connect() = 0;
  /// Every contender once.
  virtual void turn() = 0;
  /// Adds the ratios of the turns so far; higher is better.
  virtual void add_ratios(std::map<std::string, spread>& all) const = 0;
};

struct gate_load {
  const char* name;
  const char* transport;
  std::size_t bytes;  ///< of a frame
  std::uint32_t frames;
  std::size_t clients;
  std::size_t in_flight;     ///< of each client
  bool hand_server = false;  ///< also beside the hand-written server
  bool poll = false;         ///< also a daemon with `completion = "poll"`
};

constexpr gate_load gate_loads[] = {
    {"256 B, one client", "tcp", 256, 1, 1, 64},
    {"256 B, 32 clients", "tcp", 256, 1, 32, 8, true, true},
    {"256 B records, 64 to a request", "tcp", 256, 64, 1, 16},
    {"4 KiB, 8 clients", "tcp", 4096, 1, 8, 16},
    {"64 KiB", "tcp", 65536, 1, 2, 8, false, true},
    {"64 KiB over ipc", "ipc", 65536, 1, 2, 8},
    {"1 MiB", "tcp", 1U << 20U, 1, 2, 4},
    {"4 KiB, one at a time", "tcp", 4096, 1, 1, 1, true, true},
};

/// A load over ZeroMQ, beside an echo of the same turn and the hand-written server.
class socket_trial final : public trial {
 public:
  explicit socket_trial(const gate_load& load)
      : load_(load), echo_(endpoints_.next(load.transport)), callback_(start_daemon("callback")) {
    if (load.hand_server) {
      hand_ = std::make_unique<hand_server>(endpoints_.next(load.transport), hand_completion::inline_host,
                                            load.bytes * load.frames);
    }
    if (load.poll) {
      poll_ = start_daemon("poll");
    }
  }

  void connect() override {
    add("echo", echo_.endpoint(), false);
    if (hand_ != nullptr) {
      add("hand", hand_->endpoint(), false);
    }
    add("daemon", callback_->endpoint(), true);
    if (poll_ != nullptr) {
      add("daemon that polls", poll_->endpoint(), true);
    }
    contenders_.warm_up(warm_up_span);
  }

  void turn() override { contenders_.turn(turn_span); }

  void add_ratios(std::map<std::string, spread>& all) const override {
    const std::string name = load_.name;
    const bool single = load_.clients * load_.in_flight == 1;  // then compare latencies: 1 is as quick
    const auto ratio = [&](const std::string& daemon, const char* other, const std::string& other_name) {
      if (single) {
        all[name + ": p50 of the " + other_name + " / of the " + daemon] =
            spread_of(contenders_.latency_ratios(other, daemon));
      } else {
        all[name + ": " + daemon + " / " + other_name] = spread_of(contenders_.throughput_ratios(daemon, other));
      }
    };
    ratio("daemon", "echo", "echo");
    if (hand_ != nullptr) {
      ratio("daemon", "hand", "server by hand");
    }
    if (poll_ != nullptr) {
      ratio("daemon that polls", "echo", "echo");
    }
  }

 private:
  [[nodiscard]] std::unique_ptr<daemon_process> start_daemon(const char* completion) {
    const affine_configuration shape{.floats = {load_.bytes / sizeof(float)}, .frames = load_.frames};
    return std::make_unique<daemon_process>(
        testing::daemon_options{"host", completion, shape.text(), endpoints_.next(load_.transport)});
  }
  void add(const char* name, const std::string& endpoint, bool hello) {
    contenders_.add(name, {.endpoint = endpoint,
                           .hello = hello,
                           .floats = load_.bytes / sizeof(float),
                           .frames = load_.frames,
                           .clients = load_.clients,
                           .in_flight = load_.in_flight});
  }

  gate_load load_;
  endpoint_source endpoints_;
  echo_server echo_;
  std::unique_ptr<hand_server> hand_;
  std::unique_ptr<daemon_process> callback_;
  std::unique_ptr<daemon_process> poll_;
  comparison contenders_;
};

/// Frames of 1 MiB in shared memory beside copies of as many bytes in and out by one thread in the same turn. On few
/// processors the shard's thread runs such a batch itself, and how much faster two threads copy depends on the machine.
/// A raw echo would measure the socket instead.
class shared_trial final : public trial {
 public:
  shared_trial()
      : daemon_(
            {"host", "callback", affine_configuration{.floats = {bytes / sizeof(float)}}.text(), endpoints_.ipc()}) {}

  void connect() override {
    copies_.emplace("host", walked_bytes);
    client_.emplace(shared_loop::load_settings{
        .endpoint = daemon_.endpoint(), .transport = transport::shared_memory, .bytes = bytes, .in_flight = 32});
    (void)copies_->in_turn(bytes, copies / 2);
    (void)client_->run(warm_up_span);
  }

  void turn() override {
    const double limit = copies_->in_turn(bytes, copies) * 1e9 / static_cast<double>(bytes);
    ratios_.push_back(client_->run(turn_span).requests_per_second / limit);
  }

  void add_ratios(std::map<std::string, spread>& all) const override {
    all["1 MiB in shared memory: daemon / copies in and out"] = spread_of(ratios_);
  }

 private:
  static constexpr std::size_t bytes = 1U << 20U;
  static constexpr std::size_t walked_bytes = 64U << 20U;  // four times, of all copies: more than a cache holds
  static constexpr std::size_t copies = 1024;              // some 0.2 s

  endpoint_source endpoints_;
  daemon_process daemon_;
  std::optional<two_way_copies> copies_;
  std::optional<shared_loop> client_;
  std::vector<double> ratios_;
};

using trials = std::vector<std::unique_ptr<trial>>;

// All of them, unless the time ends first.
trials start_trials(const time_limit& limit) {
  trials all;
  for (const gate_load& load : gate_loads) {
    if (!limit.passed()) {
      all.push_back(std::make_unique<socket_trial>(load));
    }
  }
  if (!limit.passed()) {
    all.push_back(std::make_unique<shared_trial>());
  }
  return all;
}

void for_each_in_time(const trials& all, const time_limit& limit, void (trial::*step)()) {
  for (const std::unique_ptr<trial>& each : all) {
    if (!limit.passed()) {
      (*each.*step)();
    }
  }
}

// Nothing once the time has passed.
std::map<std::string, spread> measure_ratios(int repeats, const time_limit& limit) {
  const trials all = start_trials(limit);
  for_each_in_time(all, limit, &trial::connect);
  for (int repeat = 0; repeat < repeats && !limit.passed(); ++repeat) {
    for_each_in_time(all, limit, &trial::turn);
    std::fprintf(stderr, "\rquick: turn %d of %d   ", repeat + 1, repeats);
  }
  std::fputc('\n', stderr);
  std::map<std::string, spread> ratios;
  for (const std::unique_ptr<trial>& each : all) {
    if (!limit.passed()) {
      each->add_ratios(ratios);
    }
  }
  return ratios;
}

nlohmann::ordered_json read_json(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) {
    throw std::runtime_error("cannot read " + file);
  }
  return nlohmann::ordered_json::parse(stream);
}

}  // namespace

time_limit::time_limit(seconds limit, std::function<clock::time_point()> now)
    : limit_(limit), now_(std::move(now)), begin_(now_()) {}

std::string time_limit::text() const {
  if (!passed()) {
    return fmt::format("{:.0f} s of at most {:.0f} s", elapsed().count(), limit_.count());
  }
  return fmt::format(
      "it has taken {:.1f} s, and {:.0f} s are the most: something waits that should not, the machine is too busy to "
      "measure on, or the gate has grown",
      elapsed().count(), limit_.count());
}

std::vector<std::string> below_floors(const std::map<std::string, double>& ratios,
                                      const nlohmann::ordered_json& floors) {
  using by_name = std::map<std::string, double>;
  const auto wanted = floors.at("floors").get<by_name>();
  const auto own_margins = floors.value("margins", by_name{});
  const auto common_margin = floors.at("margin").get<double>();
  std::vector<std::string> lines;
  for (const auto& [name, floor] : wanted) {
    const auto own = own_margins.find(name);
    const double margin = own != own_margins.end() ? own->second : common_margin;
    const auto found = ratios.find(name);
    if (found == ratios.end()) {
      lines.push_back(fmt::format("{}: there is a floor, and nothing that measures it", name));
    } else if (!(found->second >= floor * (1 - margin))) {
      lines.push_back(fmt::format("{}: {:.3f} is below its floor of {:.3f} less {:.0f} %", name, found->second, floor,
                                  100 * margin));
    }
  }
  for (const auto& [name, ratio] : ratios) {
    if (wanted.count(name) == 0) {
      lines.push_back(fmt::format("{}: {:.3f} has no floor", name, ratio));
    }
  }
  for (const auto& [name, margin] : own_margins) {
    if (wanted.count(name) == 0) {
      lines.push_back(fmt::format("{}: there is a margin of {:.0f} %, and no floor", name, 100 * margin));
    }
  }
  return lines;
}

bool run_quick_gate(const std::string& floors_file, int repeats) {
  constexpr int max_rounds = 3;
  const nlohmann::ordered_json floors = read_json(floors_file);
  const time_limit limit(time_limit::seconds(floors.at("limit_s").get<double>()));
  std::map<std::string, double> best;
  std::vector<std::string> failures;
  for (int round = 0; round < max_rounds; ++round) {
    for (const auto& [name, ratio] : measure_ratios(repeats, limit)) {
      std::printf("%.3f (%.3f–%.3f)  %s\n", ratio.median, ratio.least, ratio.most, name.c_str());
      const auto [known, is_new] = best.try_emplace(name, ratio.median);
      known->second = std::max(known->second, ratio.median);
    }
    if (limit.passed()) {
      std::fprintf(stderr, "the quick gate fails: %s\n", limit.text().c_str());
      return false;
    }
    failures = below_floors(best, floors);
    for (const std::string& line : failures) {
      std::fprintf(stderr, "round %d of at most %d: %s\n", round + 1, max_rounds, line.c_str());
    }
    if (failures.empty()) {
      break;
    }
  }
  std::printf("done in %s\n", limit.text().c_str());
  return failures.empty();
}

}  // namespace penstock::bench
