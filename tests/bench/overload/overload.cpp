#include "tests/bench/overload/overload.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/crowd.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/flood.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/overload/recovery.hpp"
#include "tests/bench/process_usage.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr std::size_t clients = 4;
constexpr double times_capacity = 2;
constexpr double probes_per_second = 200;
constexpr milliseconds sample_every{100};

struct phases {
  milliseconds before;
  milliseconds overload;
  milliseconds after;
};

struct one_run {
  crowd_report crowd;
  recovery seen;
  std::vector<double> memory_s;
  std::vector<double> resident_mib;
  double resident_growth = 0;  // the most of the second half of the overload beside the most of the first
};

void watch_memory(one_run& into, pid_t process, clock::time_point from, clock::time_point to) {
  double first = 0;
  double second = 0;
  const auto span = to - from;
  for (clock::time_point at = from; at < to; at += sample_every) {
    std::this_thread::sleep_until(at);
    const double mib = static_cast<double>(usage_of(process).resident_bytes) / (1U << 20U);
    into.memory_s.push_back(std::chrono::duration<double>(at - from).count());
    into.resident_mib.push_back(mib);
    (at - from < span / 2 ? first : second) = std::max(at - from < span / 2 ? first : second, mib);
  }
  into.resident_growth = second / first;
}

one_run overload(const testing::daemon_process& daemon, const fairness_shape& shape, double capacity,
                 const phases& spans, std::uint64_t seed) {
  const crowd_settings probe{.endpoint = daemon.endpoint(),
                             .pipeline = shared_pipeline,
                             .floats = shape.floats,
                             .clients = 1,
                             .rate = std::min(probes_per_second, capacity / 10),
                             .span = spans.before + spans.overload + spans.after,
                             .seed = seed};
  const crowd_settings crowd{.endpoint = daemon.endpoint(),
                             .pipeline = shared_pipeline,
                             .floats = shape.floats,
                             .clients = clients,
                             .rate = times_capacity * capacity / clients,
                             .span = spans.overload,
                             .seed = seed};
  one_run made;
  auto probing = std::async(std::launch::async, [&] { return run_answered_crowd(probe); });
  std::this_thread::sleep_for(spans.before);
  auto pressing = std::async(std::launch::async, [&] { return run_crowd(crowd); });
  const clock::time_point now = clock::now();
  watch_memory(made, daemon.pid(), now, now + spans.overload);
  made.crowd = pressing.get();
  const crowd_report probed = probing.get();
  const auto begin = made.crowd.begin - probed.begin;
  made.seen = recovery_of(probed.results, begin, begin + spans.overload);
  return made;
}

ordered_json to_json(const one_run& run) {
  ordered_json kinds = ordered_json::object();
  for (const auto& [code, count] : run.crowd.errors) {
    kinds[code] = count;
  }
  return {{"sent", run.crowd.sent},
          {"results", run.crowd.results.size()},
          {"refusals", kinds},
          {"unanswered", run.crowd.unanswered},
          {"resident_growth", run.resident_growth},
          {"normal_us", run.seen.normal_us},
          {"overloaded_us", run.seen.overloaded_us},
          {"recovery_s", run.seen.seconds},
          {"memory_s", run.memory_s},
          {"resident_mib", run.resident_mib}};
}

}  // namespace

ordered_json run_overload(const bench_options& options) {
  endpoint_source endpoints;
  const fairness_shape shape = shape_for(options.backend);
  const testing::daemon_process daemon({options.backend, "callback", shape.configuration(), endpoints.tcp()});
  const double capacity = capacity_of(daemon.endpoint(), shape);
  const phases spans = options.quick ? phases{milliseconds{500}, milliseconds{1500}, milliseconds{1000}}
                                     : phases{milliseconds{2000}, milliseconds{10000}, milliseconds{5000}};
  ordered_json result = {{"benchmark", "overload"},
                         {"machine", machine_facts()},
                         {"device", device_of(daemon.endpoint())},
                         {"repeats", options.repeats},
                         {"clients", clients},
                         {"capacity_per_second", capacity},
                         {"times_capacity", times_capacity},
                         {"seconds", std::chrono::duration<double>(spans.overload).count()},
                         {"rows", ordered_json::array()}};
  bool answered = true;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    result["rows"].push_back(to_json(overload(daemon, shape, capacity, spans, static_cast<std::uint64_t>(repeat) + 1)));
    answered = answered && result["rows"].back().at("unanswered") == 0;
    std::fprintf(stderr, "\roverload: repeat %d of %d   ", repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
  result["passed"] = answered;
  return result;
}

}  // namespace penstock::bench
