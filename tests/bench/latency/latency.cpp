#include "tests/bench/latency/latency.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/crowd.hpp"
#include "tests/bench/echo_server.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/latency/lone_batch.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/race.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t frame_bytes = 4096;
constexpr std::size_t floats = frame_bytes / sizeof(float);
constexpr std::size_t clients = 8;
constexpr double loads[] = {0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95};
constexpr std::array<std::pair<const char*, double>, 5> parts{
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}}};

struct contender {
  const char* name;
  std::string endpoint;
  bool hello;
};

struct request_counts {
  std::uint64_t sent = 0;
  std::uint64_t refused = 0;
  std::uint64_t unanswered = 0;

  void add(const request_counts& more) noexcept {
    sent += more.sent;
    refused += more.refused;
    unanswered += more.unanswered;
  }
};

// What became of requests; the latencies are those of the ones that had a RESULT (or an echo).
struct ends {
  std::vector<double> latencies_us;
  request_counts counts;
};

// Of all requests of one run; the clients are spread over up to a quarter of the machine's cores.
ends run_load(const contender& who, double rate, std::chrono::nanoseconds span, std::uint64_t seed) {
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, 1, clients);
  std::vector<crowd_settings> shares(threads);  // outlive who reads them, should one of those fail
  std::vector<std::future<crowd_report>> running;
  for (std::size_t at = 0; at < threads; ++at) {
    shares[at] = {.endpoint = who.endpoint,
                  .pipeline = 0,
                  .floats = floats,
                  .clients = clients / threads,
                  .rate = rate / static_cast<double>(threads * (clients / threads)),
                  .span = span,
                  .seed = seed * 1009 + at,
                  .hello = who.hello};
    running.push_back(std::async(std::launch::async, [&share = shares[at]] { return run_crowd(share); }));
  }
  ends all;
  for (auto& each : running) {
    const crowd_report report = each.get();
    for (const crowd_result& result : report.results) {
      all.latencies_us.push_back(result.latency_us);
    }
    all.counts.add({report.sent, report.refused, report.unanswered});
  }
  return all;
}

// Of one contender: by part, the figures of each repeat; and the requests of all repeats together.
struct contender_figures {
  std::array<std::vector<double>, parts.size()> parts_us;
  request_counts counts;

  void add(const ends& of) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      parts_us[part].push_back(quantile(of.latencies_us, parts[part].second));
    }
    counts.add(of.counts);
  }
};

// By contender.
using figures = std::vector<contender_figures>;

ordered_json to_json(const std::vector<contender>& contenders, const figures& of) {
  ordered_json row = ordered_json::object();
  for (std::size_t who = 0; who < contenders.size(); ++who) {
    ordered_json& made = row[contenders[who].name];
    for (std::size_t part = 0; part < parts.size(); ++part) {
      made[parts[part].first] = bench::to_json(spread_of(of[who].parts_us[part]));
    }
    made["sent"] = of[who].counts.sent;
    made["refused"] = of[who].counts.refused;
    made["unanswered"] = of[who].counts.unanswered;
  }
  return row;
}

double capacity_of(const contender& who, bool quick) {
  closed_loop loop({.endpoint = who.endpoint, .floats = floats, .clients = clients, .in_flight = 16});
  loop.run(milliseconds{200});
  return loop.run(milliseconds{quick ? 300 : 3000}).requests_per_second;
}

ordered_json measure_loads(const std::vector<contender>& contenders, double capacity, const bench_options& options) {
  const std::chrono::nanoseconds span = milliseconds{options.quick ? 200 : 3000};
  std::vector<figures> all(std::size(loads), figures(contenders.size()));
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (std::size_t load = 0; load < std::size(loads); ++load) {
      for (std::size_t who = 0; who < contenders.size(); ++who) {
        all[load][who].add(
            run_load(contenders[who], loads[load] * capacity, span, static_cast<std::uint64_t>(repeat) + 1));
      }
    }
    std::fprintf(stderr, "\rlatency: repeat %d of %d   ", repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
  ordered_json rows = ordered_json::array();
  for (std::size_t load = 0; load < std::size(loads); ++load) {
    ordered_json row = {{"load", loads[load]}, {"requests_per_second", loads[load] * capacity}};
    row.update(to_json(contenders, all[load]));
    rows.push_back(row);
  }
  return rows;
}

// One request at a time on a daemon that has nothing else to do, beside what its parts take alone, turn by turn.
ordered_json measure_idle(const std::vector<contender>& contenders, const bench_options& options) {
  race all;
  for (const contender& each : contenders) {
    all.add(each.name, {.endpoint = each.endpoint, .hello = each.hello, .floats = floats});
  }
  const milliseconds span = options.turn();
  all.warm_up(span / 4);
  const std::unique_ptr<lone_batch> batch = open_lone_batch(options.backend, frame_bytes);
  std::array<std::vector<double>, 2> bare;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    all.turn(span);
    bare[0].push_back(batch->p50_us(completion_mode::callback, options.quick ? 200 : 5000));
    bare[1].push_back(batch->p50_us(completion_mode::poll, options.quick ? 200 : 5000));
  }
  ordered_json made = all.figures();
  made["bare_callback_us"] = bench::to_json(spread_of(bare[0]));
  made["bare_poll_us"] = bench::to_json(spread_of(bare[1]));
  made["bare_turns"] = {{"callback", bare[0]}, {"poll", bare[1]}};
  return made;
}

}  // namespace

ordered_json run_latency(const bench_options& options) {
  endpoint_source endpoints;
  const std::string configuration = affine_configuration{.floats = {floats}}.text();
  const echo_server echo(endpoints.tcp());
  const testing::daemon_process callback({options.backend, "callback", configuration, endpoints.tcp()});
  const testing::daemon_process poll({options.backend, "poll", configuration, endpoints.tcp()});
  std::vector<contender> contenders{
      {"echo", echo.endpoint(), false}, {"callback", callback.endpoint(), true}, {"poll", poll.endpoint(), true}};
  std::optional<testing::daemon_process> chooses;  // on the host `auto` is `callback`
  if (options.backend == "cuda") {
    chooses.emplace(testing::daemon_options{options.backend, "auto", configuration, endpoints.tcp()});
    contenders.push_back({"auto", chooses->endpoint(), true});
  }
  const double capacity =
      std::min(capacity_of(contenders[1], options.quick), capacity_of(contenders[2], options.quick));
  ordered_json result = {
      {"benchmark", "latency"},         {"machine", machine_facts()}, {"device", device_of(callback.endpoint())},
      {"repeats", options.repeats},     {"bytes", frame_bytes},       {"clients", clients},
      {"capacity_per_second", capacity}};
  result["rows"] = measure_loads(contenders, capacity, options);
  result["idle"] = measure_idle(contenders, options);
  return result;
}

}  // namespace penstock::bench
