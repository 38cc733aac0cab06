#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/benchmarks.hpp"
#include "tests/bench/closed_loop.hpp"
#include "tests/bench/servers.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using testing::daemon_process;

struct daemon_kind {
  const char* name;
  const char* completion;
};

// The difference between the two that poll is chance.
constexpr std::array<daemon_kind, 4> kinds{
    {{"callback", "callback"}, {"poll", "poll"}, {"poll_again", "poll"}, {"auto", "auto"}}};

constexpr std::array<std::size_t, 5> payloads{256, 4096, 65536, 1U << 20U, 16U << 20U};  // one pipeline each

struct load_point {
  std::size_t pipeline;
  std::size_t clients;
  std::size_t in_flight;  // of all clients together

  /// The figure that counts: latency of one request at a time, else throughput.
  [[nodiscard]] const char* figure() const noexcept {
    return in_flight == 1 ? "latency_p50_us" : "requests_per_second";
  }
};

std::vector<load_point> every_load() {
  std::vector<load_point> all;
  for (std::size_t at = 0; at < payloads.size(); ++at) {
    all.push_back({at, 1, 1});
    all.push_back({at, 1, payloads[at] <= 4096 ? 256U : payloads[at] <= 1U << 20U ? 32U : 8U});
    if (payloads[at] <= 1U << 20U) {
      all.push_back({at, 32, payloads[at] <= 4096 ? 256U : 32U});
    }
  }
  return all;
}

// The daemons of one repeat, started anew and in another order each time.
class daemon_set {
 public:
  daemon_set(const bench_options& options, std::size_t repeat)
      : span_(options.turn_ms != 0 ? options.turn() : std::chrono::milliseconds{options.quick ? 50 : 150}) {
    affine_configuration shape;
    shape.floats.clear();
    for (const std::size_t bytes : payloads) {
      shape.floats.push_back(bytes / sizeof(float));
    }
    for (std::size_t at = 0; at < kinds.size(); ++at) {
      const daemon_kind& kind = kinds[(at + repeat) % kinds.size()];
      names_.emplace_back(kind.name);
      daemons_.push_back(std::make_unique<daemon_process>(testing::daemon_options{
          options.backend, kind.completion, shape.text(), endpoints_.next(repeat % 2 == 0 ? "tcp" : "ipc")}));
    }
  }

  [[nodiscard]] ordered_json device() const { return device_of(daemons_.front()->endpoint()); }

  /// Adds a turn of each to the row.
  void measure(const load_point& load, ordered_json& row) const {
    comparison all;
    for (std::size_t at = 0; at < names_.size(); ++at) {
      all.add(names_[at], {.endpoint = daemons_[at]->endpoint(),
                           .pipeline = static_cast<std::uint32_t>(load.pipeline),
                           .floats = payloads[load.pipeline] / sizeof(float),
                           .clients = load.clients,
                           .in_flight = load.in_flight / load.clients});
    }
    all.warm_up(span_);
    all.turn(span_);
    const ordered_json figures = all.figures();
    const char* const key = load.figure();
    for (const std::string& name : names_) {
      row[name]["turns"][key].push_back(figures.at(name).at("turns").at(key).at(0));
    }
  }

 private:
  std::chrono::milliseconds span_;
  endpoint_source endpoints_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<daemon_process>> daemons_;
};

// Above 1: `name` is better than `other`.
void add_ratio(ordered_json& row, const char* name, const char* other, const load_point& load) {
  const auto turns = [&](const char* mode) {
    return row.at(mode).at("turns").at(load.figure()).get<std::vector<double>>();
  };
  const std::vector<double> times =
      load.in_flight == 1 ? ratios(turns(other), turns(name)) : ratios(turns(name), turns(other));
  row[std::string(name) + "_to_" + other] = to_json(median_interval(times));
}

void sum_up(const load_point& load, ordered_json& row) {
  for (const daemon_kind& kind : kinds) {
    ordered_json& mode = row.at(kind.name);
    mode[load.figure()] = to_json(spread_of(mode.at("turns").at(load.figure()).get<std::vector<double>>()));
  }
  add_ratio(row, "auto", "callback", load);
  add_ratio(row, "auto", "poll", load);
  add_ratio(row, "poll_again", "poll", load);
}

}  // namespace

// The daemon's completion modes beside each other: throughput, and latency of one request at a time, by payload.
ordered_json run_modes(const bench_options& options) {
  ordered_json result = new_result("modes", options, nullptr);
  ordered_json& rows = result["rows"];
  const std::vector<load_point> loads = every_load();
  for (const load_point& each : loads) {
    rows.push_back({{"bytes", payloads[each.pipeline]}, {"clients", each.clients}, {"in_flight", each.in_flight}});
  }
  interleave(options, "modes", [&](int repeat) {
    const daemon_set all(options, static_cast<std::size_t>(repeat));
    result["device"] = all.device();
    for (std::size_t at = 0; at < loads.size(); ++at) {
      all.measure(loads[at], rows[at]);
    }
  });
  for (std::size_t at = 0; at < loads.size(); ++at) {
    sum_up(loads[at], rows[at]);
  }
  return result;
}

}  // namespace penstock::bench
