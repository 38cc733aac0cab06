#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "client/cli/admin_http.hpp"
#include "daemon/config/settings.hpp"
#include "tests/bench/benchmarks.hpp"
#include "tests/bench/load_client.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t floats = 64;
constexpr std::size_t in_flight = 64;
constexpr std::size_t unlimited = 100'000'000;
constexpr milliseconds turn_span{50};       // short: other load on the machine affects all rates alike
constexpr milliseconds reading_span{1000};  // long enough to read a timeline

struct rate {
  const char* name;
  unsigned batches_per_second;
  bool scraped = false;  // once in each turn
  std::vector<double> requests_per_second{};
};

/// A request to the daemon's admin endpoint, sent again and again over a new connection each time. Thread: one.
class admin_request {
 public:
  /// `address`: "127.0.0.1:7680".
  admin_request(const std::string& address, std::string target)
      : address_(cli::parse_admin_address(address).value()), target_(std::move(target)) {}

  /// Throws std::runtime_error if the status is not 200.
  void send() {
    const auto begin = std::chrono::steady_clock::now();
    const cli::http_answer answer = cli::admin_get(address_, target_, std::chrono::seconds{20});
    if (answer.status != 200) {
      throw std::runtime_error("the daemon answers " + target_ + " with " + std::to_string(answer.status));
    }
    took_ms_.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    bytes_ = answer.body.size();
  }

  [[nodiscard]] const std::vector<double>& took_ms() const noexcept { return took_ms_; }
  /// Size of the last answer.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  cli::admin_address address_;
  std::string target_;
  std::vector<double> took_ms_;
  std::size_t bytes_ = 0;
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

/// One daemon and one connection for all: two of a kind differ by more than the effect.
class timing_turns {
 public:
  explicit timing_turns(const bench_options& options)
      : rounds_(options.quick ? 6 : 60),
        readings_(options.quick ? 1 : 3),
        daemon_({options.backend, "poll", configuration(timing_settings{}.batches_per_second),
                 testing::free_tcp_endpoint(), admin_}) {}

  void repeat();
  [[nodiscard]] ordered_json rows() const;
  [[nodiscard]] ordered_json metrics() const;
  [[nodiscard]] ordered_json timeline_read() const;
  [[nodiscard]] const std::string& endpoint() const noexcept { return daemon_.endpoint(); }

 private:
  void set_rate(unsigned batches_per_second);
  double turn(milliseconds span, admin_request* meanwhile);
  void read_timeline();

  int rounds_;
  int readings_;  // of the timeline, in a repeat
  std::string admin_ = free_admin_address();
  testing::daemon_process daemon_;
  load_client client_{daemon_.endpoint(), 0, floats, true};
  // The daemon times only as many batches as 0.5 % of its thread allow.
  std::vector<rate> rates_{{"off", 0},
                           {"default", timing_settings{}.batches_per_second},
                           {"500 a second", 500},
                           {"every", 1'000'000},
                           {"default, scraped", timing_settings{}.batches_per_second, true}};
  unsigned now_ = timing_settings{}.batches_per_second;
  admin_request scrapes_{admin_, "/metrics"};
  admin_request timelines_{admin_, "/api/v1/trace?last=5s"};
  std::vector<double> unread_;  // requests per second of the turns without a reading
  std::vector<double> read_;
};

void timing_turns::set_rate(unsigned batches_per_second) {
  if (std::exchange(now_, batches_per_second) != batches_per_second) {
    daemon_.reload(configuration(batches_per_second));
  }
}

double timing_turns::turn(milliseconds span, admin_request* meanwhile) {
  client_.run(in_flight, unlimited, turn_span / 5);
  // A thread starts even without a request: that alone can move the others to other cores.
  auto request = std::async(std::launch::async, [meanwhile] {
    if (meanwhile != nullptr) {
      meanwhile->send();
    }
  });
  const double rate_now = client_.run(in_flight, unlimited, span).requests_per_second;
  request.get();
  return rate_now;
}

void timing_turns::repeat() {
  std::vector<double> sums(rates_.size());
  for (int round = 0; round < rounds_; ++round) {
    for (std::size_t turn_number = 0; turn_number < rates_.size(); ++turn_number) {
      const std::size_t place = (static_cast<std::size_t>(round) + turn_number) % rates_.size();
      const std::size_t at = round % 2 == 0 ? place : rates_.size() - 1 - place;  // every other round in reverse
      set_rate(rates_[at].batches_per_second);
      sums[at] += turn(turn_span, rates_[at].scraped ? &scrapes_ : nullptr);
    }
  }
  for (std::size_t at = 0; at < rates_.size(); ++at) {
    rates_[at].requests_per_second.push_back(sums[at] / rounds_);
  }
  read_timeline();
}

// Alternates which of the two comes first.
void timing_turns::read_timeline() {
  set_rate(timing_settings{}.batches_per_second);
  double with = 0;
  double without = 0;
  for (int reading = 0; reading < readings_; ++reading) {
    const bool first = (read_.size() + static_cast<std::size_t>(reading)) % 2 == 0;
    with += first ? turn(reading_span, &timelines_) : 0;
    without += turn(reading_span, nullptr);
    with += first ? 0 : turn(reading_span, &timelines_);
  }
  read_.push_back(with / readings_);
  unread_.push_back(without / readings_);
}

ordered_json timing_turns::rows() const {
  ordered_json all = ordered_json::array();
  const std::vector<double>& off = rates_.front().requests_per_second;
  for (const rate& each : rates_) {
    if (!each.scraped) {
      all.push_back({{"timing", each.name},
                     {"batches_per_second", each.batches_per_second},
                     {"requests_per_second", to_json(spread_of(each.requests_per_second))},
                     {"ratio", to_json(spread_of(ratios(each.requests_per_second, off)))}});
    }
  }
  return all;
}

ordered_json figures_beside(const admin_request& request, milliseconds span, const std::vector<double>& with,
                            const std::vector<double>& without) {
  return {{"turn_ms", span.count()},
          {"bytes", request.bytes()},
          {"took_ms", to_json(spread_of(request.took_ms()))},
          {"requests_per_second", to_json(spread_of(with))},
          {"ratio", to_json(spread_of(ratios(with, without)))}};
}

ordered_json timing_turns::metrics() const {
  return figures_beside(scrapes_, turn_span, rates_.back().requests_per_second, rates_[1].requests_per_second);
}

ordered_json timing_turns::timeline_read() const {
  return figures_beside(timelines_, reading_span, read_, unread_);
}

}  // namespace

// What timing costs in throughput of small requests: event timing off, at its default and of every batch, a scraper of
// metrics, and a reader of the timeline; one daemon and one connection for all, in short turns.
ordered_json run_timing(const bench_options& options) {
  timing_turns all(options);
  interleave(options, "timing", [&](int /*repeat*/) { all.repeat(); });
  ordered_json result = new_result("timing", options, device_of(all.endpoint()));
  result.update({{"in_flight", in_flight},
                 {"bytes", floats * sizeof(float)},
                 {"rows", all.rows()},
                 {"metrics", all.metrics()},
                 {"timeline_read", all.timeline_read()}});
  return result;
}

}  // namespace penstock::bench
