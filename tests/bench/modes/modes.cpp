#include "tests/bench/modes/modes.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/paired_ratio.hpp"
#include "tests/bench/race.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using testing::daemon_process;

struct daemon_kind {
  const char* name;
  const char* completion;
};

// What the second one that polls does otherwise than the first is chance.
constexpr std::array<daemon_kind, 4> kinds{
    {{"callback", "callback"}, {"poll", "poll"}, {"poll_again", "poll"}, {"auto", "auto"}}};

constexpr std::array<std::size_t, 5> payloads{256, 4096, 65536, 1U << 20U, 16U << 20U};  // a pipeline each

struct asked_load {
  std::size_t pipeline;
  std::size_t clients;
  std::size_t in_flight;  // together

  [[nodiscard]] const compared_figure& figure() const noexcept {
    return in_flight == 1 ? latency_figure : throughput_figure;
  }
};

std::vector<asked_load> every_load() {
  std::vector<asked_load> all;
  for (std::size_t at = 0; at < payloads.size(); ++at) {
    all.push_back({at, 1, 1});
    all.push_back({at, 1, payloads[at] <= 4096 ? 256U : payloads[at] <= 1U << 20U ? 32U : 8U});
    if (payloads[at] <= 1U << 20U) {
      all.push_back({at, 32, payloads[at] <= 4096 ? 256U : 32U});
    }
  }
  return all;
}

// The daemons of one repeat, in whose turns another one comes first each time.
class field {
 public:
  field(const bench_options& options, std::size_t repeat)
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
          options.backend, kind.completion, shape.text(), endpoints_.of(repeat % 2 == 0 ? "tcp" : "ipc")}));
    }
  }

  [[nodiscard]] ordered_json device() const { return device_of(daemons_.front()->endpoint()); }

  /// Adds a turn of each to the row.
  void measure(const asked_load& load, ordered_json& row) const {
    race all;
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
    const char* const key = load.figure().key;
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

void add_ratio(ordered_json& row, const char* who, const char* other, const compared_figure& by) {
  const auto turns = [&](const char* name) { return row.at(name).at("turns").at(by.key).get<std::vector<double>>(); };
  const std::vector<double> times =
      by.less_is_better ? ratios(turns(other), turns(who)) : ratios(turns(who), turns(other));
  row[std::string(who) + "_to_" + other] = to_json(median_interval(times));
}

void sum_up(const asked_load& load, ordered_json& row) {
  const compared_figure& by = load.figure();
  for (const daemon_kind& kind : kinds) {
    const auto turns = row.at(kind.name).at("turns").at(by.key).get<std::vector<double>>();
    row[kind.name][by.key] = to_json(spread_of(turns));
  }
  add_ratio(row, "auto", "callback", by);
  add_ratio(row, "auto", "poll", by);
  add_ratio(row, "poll_again", "poll", by);
}

}  // namespace

ordered_json run_modes(const bench_options& options) {
  ordered_json result = {{"benchmark", "modes"},
                         {"machine", machine_facts()},
                         {"device", nullptr},
                         {"repeats", options.repeats},
                         {"rows", ordered_json::array()}};
  ordered_json& rows = result["rows"];
  const std::vector<asked_load> loads = every_load();
  for (const asked_load& each : loads) {
    rows.push_back({{"bytes", payloads[each.pipeline]}, {"clients", each.clients}, {"in_flight", each.in_flight}});
  }
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    std::fprintf(stderr, "\rmodes: repeat %d of %d   ", repeat + 1, options.repeats);
    const field all(options, static_cast<std::size_t>(repeat));
    result["device"] = all.device();
    for (std::size_t at = 0; at < loads.size(); ++at) {
      all.measure(loads[at], rows[at]);
    }
  }
  std::fputc('\n', stderr);
  for (std::size_t at = 0; at < loads.size(); ++at) {
    sum_up(loads[at], rows[at]);
  }
  return result;
}

}  // namespace penstock::bench
