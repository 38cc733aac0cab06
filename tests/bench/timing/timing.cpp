#include "tests/bench/timing/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "daemon/settings/settings.hpp"
#include "tests/bench/load.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/bench/timing/admin_questions.hpp"
#include "tests/bench/timing/kept_batches.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t floats = 64;
constexpr std::size_t in_flight = 64;
constexpr std::size_t any_number = 100'000'000;
constexpr milliseconds turn_span{50};       // short, so that what else the machine does falls on all rates alike
constexpr milliseconds reading_span{1000};  // long enough for a timeline to be read in it
constexpr std::size_t kept_for_a_repeat = 20'000;

struct rate {
  const char* name;
  unsigned batches_per_second;
  bool scraped = false;  // once in each turn
  std::vector<double> requests_per_second{};
};

std::string configuration(unsigned batches_per_second) {
  return fmt::format(
      "config_version = 1\n[daemon]\nlog_level = \"warn\"\n[timing]\nbatches_per_second = {}\n"
      "[[pipeline]]\nname = \"y\"\ninput = {{ dtype = \"f32\", shape = [{}] }}\n"
      "[[pipeline.stage]]\nname = \"y\"\nop = \"affine\"\na = 2.0\nb = 1.0\n",
      batches_per_second, floats);
}

// "127.0.0.1:PORT"
std::string free_admin_address() {
  return testing::free_tcp_endpoint().substr(std::string("tcp://").size());
}

/// One daemon and one connection for all: two of a kind differ by more than what is looked for.
class contest {
 public:
  explicit contest(const bench_options& options)
      : rounds_(options.quick ? 6 : 60),
        readings_(options.quick ? 1 : 3),
        daemon_({options.backend, "poll", configuration(timing_settings{}.batches_per_second),
                 testing::free_tcp_endpoint(), admin_}) {}

  void repeat();
  [[nodiscard]] ordered_json rows() const;
  [[nodiscard]] ordered_json metrics() const;
  [[nodiscard]] ordered_json timeline_read() const;
  [[nodiscard]] ordered_json timeline_kept() const;
  [[nodiscard]] const std::string& endpoint() const noexcept { return daemon_.endpoint(); }

 private:
  struct counts {
    double requests;
    double batches;
    double uptime_s;
  };

  void set_rate(unsigned batches_per_second);
  double turn(milliseconds span, admin_questions* meanwhile);
  void read_timeline();
  [[nodiscard]] counts counted();
  void keep(const counts& before, const counts& after);

  int rounds_;
  int readings_;  // of the timeline, in a repeat
  std::string admin_ = free_admin_address();
  testing::daemon_process daemon_;
  testing::raw_peer status_{daemon_.endpoint()};
  load_client client_{daemon_.endpoint(), 0, floats, true};
  // The daemon reads the events of so many batches as 0.5 % of its thread allows, however many are asked for.
  std::vector<rate> rates_{{"off", 0},
                           {"default", timing_settings{}.batches_per_second},
                           {"500 a second", 500},
                           {"every", 1'000'000},
                           {"default, scraped", timing_settings{}.batches_per_second, true}};
  unsigned now_ = timing_settings{}.batches_per_second;
  admin_questions scrapes_{admin_, "/metrics"};
  admin_questions timelines_{admin_, "/api/v1/trace?last=5s"};
  std::vector<double> unread_;  // requests a second of the turns beside which no timeline was read
  std::vector<double> read_;
  std::vector<double> keeping_ns_;  // a batch
  std::vector<double> keeping_share_;
  std::vector<double> requests_a_batch_;
};

void contest::set_rate(unsigned batches_per_second) {
  if (std::exchange(now_, batches_per_second) != batches_per_second) {
    daemon_.reload(configuration(batches_per_second));
  }
}

double contest::turn(milliseconds span, admin_questions* meanwhile) {
  client_.run(in_flight, any_number, turn_span / 5);
  // Where nothing is asked a thread starts too: that alone can move the others to other cores.
  auto asking = std::async(std::launch::async, [meanwhile] {
    if (meanwhile != nullptr) {
      meanwhile->ask();
    }
  });
  const double made = client_.run(in_flight, any_number, span).requests_per_second;
  asking.get();
  return made;
}

void contest::repeat() {
  std::vector<double> sums(rates_.size());
  for (int round = 0; round < rounds_; ++round) {
    for (std::size_t turn_number = 0; turn_number < rates_.size(); ++turn_number) {
      const std::size_t place = (static_cast<std::size_t>(round) + turn_number) % rates_.size();
      const std::size_t at = round % 2 == 0 ? place : rates_.size() - 1 - place;  // after another one in every other
      set_rate(rates_[at].batches_per_second);
      sums[at] += turn(turn_span, rates_[at].scraped ? &scrapes_ : nullptr);
    }
  }
  for (std::size_t at = 0; at < rates_.size(); ++at) {
    rates_[at].requests_per_second.push_back(sums[at] / rounds_);
  }
  read_timeline();
}

// Each time the other of the two comes first.
void contest::read_timeline() {
  set_rate(timing_settings{}.batches_per_second);
  double with = 0;
  double without = 0;
  const counts before = counted();
  for (int reading = 0; reading < readings_; ++reading) {
    const bool first = (read_.size() + static_cast<std::size_t>(reading)) % 2 == 0;
    with += first ? turn(reading_span, &timelines_) : 0;
    without += turn(reading_span, nullptr);
    with += first ? 0 : turn(reading_span, &timelines_);
  }
  keep(before, counted());
  read_.push_back(with / readings_);
  unread_.push_back(without / readings_);
}

contest::counts contest::counted() {
  const nlohmann::json status = status_.status();
  const nlohmann::json& of = status.at("pipelines").at(0);
  return {of.at("requests").at("results").get<double>(), of.at("batches").get<double>(),
          status.at("uptime_s").get<double>()};
}

void contest::keep(const counts& before, const counts& after) {
  const double batches = std::max(after.batches - before.batches, 1.0);
  const double of_a_batch = std::max(std::round((after.requests - before.requests) / batches), 1.0);
  const double ns = nanoseconds_to_keep(static_cast<std::size_t>(of_a_batch), kept_for_a_repeat);
  requests_a_batch_.push_back(of_a_batch);
  keeping_ns_.push_back(ns);
  keeping_share_.push_back(1e-9 * ns * batches / (after.uptime_s - before.uptime_s));
}

ordered_json contest::rows() const {
  ordered_json made = ordered_json::array();
  const std::vector<double>& off = rates_.front().requests_per_second;
  for (const rate& each : rates_) {
    if (!each.scraped) {
      made.push_back({{"timing", each.name},
                      {"batches_per_second", each.batches_per_second},
                      {"requests_per_second", to_json(spread_of(each.requests_per_second))},
                      {"ratio", to_json(spread_of(ratios(each.requests_per_second, off)))}});
    }
  }
  return made;
}

ordered_json asked_json(const admin_questions& what, milliseconds span, const std::vector<double>& with,
                        const std::vector<double>& without) {
  return {{"turn_ms", span.count()},
          {"bytes", what.bytes()},
          {"took_ms", to_json(spread_of(what.took_ms()))},
          {"requests_per_second", to_json(spread_of(with))},
          {"ratio", to_json(spread_of(ratios(with, without)))}};
}

ordered_json contest::metrics() const {
  return asked_json(scrapes_, turn_span, rates_.back().requests_per_second, rates_[1].requests_per_second);
}

ordered_json contest::timeline_read() const {
  return asked_json(timelines_, reading_span, read_, unread_);
}

ordered_json contest::timeline_kept() const {
  return {{"requests_a_batch", to_json(spread_of(requests_a_batch_))},
          {"ns_a_batch", to_json(spread_of(keeping_ns_))},
          {"share", to_json(spread_of(keeping_share_))}};
}

}  // namespace

ordered_json run_timing(const bench_options& options) {
  contest all(options);
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    all.repeat();
    std::fprintf(stderr, "\rtiming: repeat %d of %d   ", repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
  return {{"benchmark", "timing"},
          {"machine", machine_facts()},
          {"device", device_of(all.endpoint())},
          {"repeats", options.repeats},
          {"in_flight", in_flight},
          {"bytes", floats * sizeof(float)},
          {"one_daemon", true},
          {"rows", all.rows()},
          {"metrics", all.metrics()},
          {"timeline_read", all.timeline_read()},
          {"timeline_kept", all.timeline_kept()}};
}

}  // namespace penstock::bench
