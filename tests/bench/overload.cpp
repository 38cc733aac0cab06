#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/benchmarks.hpp"
#include "tests/bench/closed_loop.hpp"
#include "tests/bench/open_loop.hpp"
#include "tests/bench/servers.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr double times_capacity = 2;
constexpr std::size_t clients = 4;
constexpr double probes_per_second = 200;
constexpr milliseconds sample_period{50};
constexpr std::chrono::minutes max_probing{2};

double mebibytes(double bytes) {
  return bytes / (1U << 20U);
}

double seconds(clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// A daemon with one bottleneck.
struct overload_case {
  std::string name;
  std::string configuration;
  std::uint32_t pipeline = 0;
  std::size_t floats = 0;   ///< of a frame
  std::size_t credits = 0;  ///< of a client
};

// The device, where excess requests are refused; sockets and shard; and the device, where the oldest is dropped.
std::vector<overload_case> overload_cases(const std::string& backend) {
  constexpr std::size_t default_credits = 256;  // the daemon's
  constexpr std::size_t affine_credits = 1024;  // affine_configuration's
  constexpr std::size_t small_floats = 256 / sizeof(float);
  const fairness_shape refuses = shape_for(backend);
  fairness_shape drops = refuses;
  drops.pipeline_lines = "overflow = \"drop-oldest\"\n";
  return {{"compute", refuses.configuration(), shared_pipeline, refuses.floats, default_credits},
          {"messages", affine_configuration{.floats = {small_floats}}.text(), 0, small_floats, affine_credits},
          {"drop-oldest", drops.configuration(), shared_pipeline, drops.floats, default_credits}};
}

struct phases {
  milliseconds before;
  milliseconds overload;
  milliseconds after;  ///< counted from the last reply to the overload
};

/// How a client that sends little sees the overload.
struct recovery {
  double normal_us = 0;      ///< p90 before it
  double overloaded_us = 0;  ///< p50 during it
  /// From its end until the first of ten requests in a row with at most twice the normal latency; -1: not seen.
  double seconds = -1;
  std::size_t after = 0;  ///< requests after its end
};

recovery recovery_of(std::vector<open_loop_result> probes, std::chrono::nanoseconds begin,
                     std::chrono::nanoseconds end) {
  constexpr std::size_t in_a_row = 10;
  std::sort(probes.begin(), probes.end(), [](const auto& a, const auto& b) { return a.scheduled < b.scheduled; });
  std::vector<double> before;
  std::vector<double> during;
  for (const open_loop_result& each : probes) {
    if (each.scheduled < begin) {
      before.push_back(each.latency_us);
    } else if (each.scheduled < end) {
      during.push_back(each.latency_us);
    }
  }
  recovery seen{quantile(before, 0.9), quantile(during, 0.5), -1, probes.size() - before.size() - during.size()};
  std::size_t good = 0;
  for (std::size_t at = 0; at < probes.size(); ++at) {
    const bool normal = probes[at].scheduled >= end && probes[at].latency_us <= 2 * seen.normal_us;
    good = normal ? good + 1 : 0;
    if (good == in_a_row) {
      seen.seconds = std::chrono::duration<double>(probes[at + 1 - in_a_row].scheduled - end).count();
      break;
    }
  }
  return seen;
}

/// Resident memory by seconds since the begin of the overload.
struct memory_samples {
  std::vector<double> seconds;
  std::vector<double> resident_mib;

  /// The most between two times.
  [[nodiscard]] double most(double begin, double end) const {
    double found = 0;
    for (std::size_t at = 0; at < seconds.size(); ++at) {
      found = seconds[at] >= begin && seconds[at] < end ? std::max(found, resident_mib[at]) : found;
    }
    return found;
  }
};

// How much more memory the second half of the overload may use: 1 % for the allocator, and 50 ms of requests, which the
// sockets read ahead while another process has the shard's core. A daemon that queues what it cannot do keeps several
// times that: a half lasts at least 500 ms and half of the requests are excess.
double memory_margin_mib(double first_mib, double mib_per_second) {
  return 0.01 * first_mib + 0.05 * mib_per_second;
}

/// A case with its daemon, which serves all repeats.
class contender {
 public:
  contender(overload_case shape, const std::string& backend, const std::string& listen, bool quick)
      : case_(std::move(shape)), daemon_({backend, "callback", case_.configuration, listen}) {
    closed_loop loop({.endpoint = daemon_.endpoint(),
                      .pipeline = case_.pipeline,
                      .floats = case_.floats,
                      .clients = clients,
                      .in_flight = case_.credits});
    loop.run(milliseconds{quick ? 100 : 500});
    capacity_ = loop.run(milliseconds{quick ? 500 : 1500}).requests_per_second;
  }

  void overload(const phases& plan, std::uint64_t seed);
  [[nodiscard]] ordered_json figures() const {
    return {{"name", case_.name},       {"bytes", case_.floats * sizeof(float)}, {"clients", clients},
            {"credits", case_.credits}, {"capacity_per_second", capacity_},      {"rows", rows_}};
  }
  [[nodiscard]] const std::string& name() const noexcept { return case_.name; }
  [[nodiscard]] const ordered_json& rows() const noexcept { return rows_; }
  [[nodiscard]] const std::string& endpoint() const noexcept { return daemon_.endpoint(); }

 private:
  struct drops {
    std::uint64_t requests;
    std::uint64_t replies;
  };
  struct measured {
    open_loop_totals load;
    open_loop_report probes;
    std::vector<std::pair<clock::time_point, double>> memory;
    clock::time_point drained;  ///< every request of the load has its answer
  };

  [[nodiscard]] drops drops_of(testing::raw_peer& peer) const {
    const nlohmann::json status = peer.status();
    const nlohmann::json& requests = status.at("pipelines").at(case_.pipeline).at("requests");
    return {requests.at("errors").at("REJECTED").get<std::uint64_t>(),
            status.at("replies").at("dropped").get<std::uint64_t>()};
  }
  [[nodiscard]] open_loop_settings settings(std::uint64_t seed) const {
    return {.endpoint = daemon_.endpoint(), .pipeline = case_.pipeline, .floats = case_.floats, .seed = seed};
  }
  [[nodiscard]] measured run(const phases& plan, std::uint64_t seed) const;

  overload_case case_;
  testing::daemon_process daemon_;
  double capacity_ = 0;
  ordered_json rows_ = ordered_json::array();
};

// The load is connected before the probes begin, so that its start disturbs none of them.
contender::measured contender::run(const phases& plan, std::uint64_t seed) const {
  open_loop_settings load = settings(seed);
  load.clients = clients;
  load.rate = times_capacity * capacity_ / clients;
  load.span = plan.overload;
  std::stop_source enough;
  open_loop_settings probe = settings(seed);
  probe.clients = 1;
  probe.rate = std::min(probes_per_second, capacity_ / 10);
  probe.span = max_probing;
  probe.stop = enough.get_token();
  open_loop_threads threads(load);
  measured all;
  auto probing = std::async(std::launch::async, [&] { return run_answered_open_loop(probe); });
  std::this_thread::sleep_for(plan.before);
  threads.start();
  const clock::time_point end = clock::now() + plan.overload;
  do {
    all.memory.emplace_back(clock::now(), mebibytes(static_cast<double>(usage_of(daemon_.pid()).resident_bytes)));
    if (clock::now() >= end) {
      threads.stop();
    }
  } while (!threads.done_within(sample_period));
  all.drained = clock::now();
  std::this_thread::sleep_for(plan.after);
  enough.request_stop();
  all.load = threads.totals();
  all.probes = probing.get();
  return all;
}

void contender::overload(const phases& plan, std::uint64_t seed) {
  testing::raw_peer peer(daemon_.endpoint());
  const drops before = drops_of(peer);
  measured all = run(plan, seed);
  const drops after = drops_of(peer);
  const double span = seconds(plan.overload);
  const auto begin = all.load.begin - all.probes.begin;
  const recovery seen = recovery_of(all.probes.results, begin, begin + plan.overload);
  memory_samples memory;
  for (const auto& [at, mib] : all.memory) {
    memory.seconds.push_back(seconds(at - all.load.begin));
    memory.resident_mib.push_back(mib);
  }
  const double first_mib = memory.most(0, span / 2);
  const double second_mib = memory.most(span / 2, span);
  const double margin_mib =
      memory_margin_mib(first_mib, mebibytes(static_cast<double>(all.load.sent * case_.floats * sizeof(float))) / span);
  const std::uint64_t dropped = after.requests - before.requests;
  const std::uint64_t reported = all.load.errors["OVERFLOW"] + all.probes.errors["OVERFLOW"];
  ordered_json failures = ordered_json::array();
  if (all.load.unanswered > 0) {
    failures.push_back(fmt::format("{} of {} requests had no answer", all.load.unanswered, all.load.sent));
  }
  if (reported != dropped) {
    failures.push_back(fmt::format("the daemon dropped {} requests and told of {}", dropped, reported));
  }
  if (first_mib <= 0 || second_mib <= 0) {
    failures.push_back("memory was not sampled in both halves");
  } else if (second_mib > first_mib + margin_mib) {
    failures.push_back(
        fmt::format("memory grew from {:.1f} MiB in the first half to {:.1f} in the second, by more than "
                    "{:.1f}",
                    first_mib, second_mib, margin_mib));
  }
  if (seen.seconds < 0) {
    failures.push_back(fmt::format("no recovery was seen in the {} requests after it", seen.after));
  }
  rows_.push_back({{"sent", all.load.sent},
                   {"results", all.load.results.size()},
                   {"refusals", all.load.errors},
                   {"unanswered", all.load.unanswered},
                   {"dropped", dropped},
                   {"replies_dropped", after.replies - before.replies},
                   {"first_half_mib", first_mib},
                   {"second_half_mib", second_mib},
                   {"margin_mib", margin_mib},
                   {"normal_us", seen.normal_us},
                   {"overloaded_us", seen.overloaded_us},
                   {"recovery_s", seen.seconds},
                   {"drained_s", seconds(all.drained - all.load.begin) - span},
                   {"failures", failures},
                   {"memory_s", memory.seconds},
                   {"resident_mib", memory.resident_mib}});
}

}  // namespace

// Twice as many requests as the daemon can do: whether every one is answered, what the daemon's memory does, and how
// soon latency is normal again. "passed" is false if a request has no answer, memory grows or no recovery is seen.
ordered_json run_overload(const bench_options& options) {
  endpoint_source endpoints;
  std::vector<std::unique_ptr<contender>> all;
  for (const overload_case& each : overload_cases(options.backend)) {
    all.push_back(std::make_unique<contender>(each, options.backend, endpoints.tcp(), options.quick));
  }
  const phases plan = options.quick ? phases{milliseconds{250}, milliseconds{1000}, milliseconds{300}}
                                    : phases{milliseconds{1000}, milliseconds{7000}, milliseconds{2000}};
  interleave(options, "overload", [&](int repeat) {
    for (const auto& each : all) {
      each->overload(plan, static_cast<std::uint64_t>(repeat) + 1);
    }
  });
  ordered_json result = new_result("overload", options, device_of(all.front()->endpoint()));
  result["times_capacity"] = times_capacity;
  result["seconds"] = seconds(plan.overload);
  result["failures"] = ordered_json::array();
  for (const auto& each : all) {
    result["cases"].push_back(each->figures());
    for (std::size_t repeat = 0; repeat < each->rows().size(); ++repeat) {
      for (const ordered_json& failure : each->rows()[repeat].at("failures")) {
        result["failures"].push_back(
            fmt::format("{}, repeat {}: {}", each->name(), repeat + 1, failure.get<std::string>()));
        std::fprintf(stderr, "overload: %s\n", result["failures"].back().get<std::string>().c_str());
      }
    }
  }
  result["passed"] = result.at("failures").empty();
  return result;
}

}  // namespace penstock::bench
