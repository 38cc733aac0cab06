#include "tests/bench/overload/overload_run.hpp"

#include <algorithm>
#include <future>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/crowd.hpp"
#include "tests/bench/overload/overload_verdict.hpp"
#include "tests/bench/overload/pressing.hpp"
#include "tests/bench/overload/recovery.hpp"
#include "tests/bench/process_usage.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr double probes_per_second = 200;
constexpr milliseconds sample_every{50};
constexpr std::chrono::minutes longest_watch{2};

double mebibytes(double bytes) {
  return bytes / (1U << 20U);
}

double seconds(clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

struct sample {
  clock::time_point at;
  double resident_mib;
};

// What the daemon says that it has let fall so far.
struct losses {
  std::uint64_t requests;
  std::uint64_t replies;
};

losses losses_of(testing::raw_peer& asking, std::uint32_t pipeline) {
  const nlohmann::json status = asking.status();
  const nlohmann::json& of = status.at("pipelines").at(pipeline).at("requests");
  return {of.at("errors").at("REJECTED").get<std::uint64_t>(), status.at("replies").at("dropped").get<std::uint64_t>()};
}

std::uint64_t count_of(const std::map<std::string, std::uint64_t>& errors, const char* code) {
  const auto found = errors.find(code);
  return found == errors.end() ? 0 : found->second;
}

struct measured {
  pressed crowd;
  crowd_report probes;
  std::vector<sample> memory;
  clock::time_point drained;  // every request of the crowd has its answer
};

crowd_settings crowd_of(const testing::daemon_process& daemon, const overload_case& of, std::uint64_t seed) {
  return {.endpoint = daemon.endpoint(), .pipeline = of.pipeline, .floats = of.floats, .seed = seed};
}

// Looks at the memory from the first request until the last answer.
void hold_down(pressing& crowd, pid_t process, milliseconds span, measured& into) {
  crowd.go();
  const clock::time_point end = clock::now() + span;
  do {
    into.memory.push_back({clock::now(), mebibytes(static_cast<double>(usage_of(process).resident_bytes))});
    if (clock::now() >= end) {
      crowd.stop();
    }
  } while (!crowd.done_within(sample_every));
  into.drained = clock::now();
}

// The crowd is ready before the probes begin, so that what it does to get ready disturbs none of them; they go on until
// it has been done for a while.
measured press(const testing::daemon_process& daemon, const overload_case& of, double capacity,
               const overload_plan& plan, std::uint64_t seed) {
  crowd_settings crowd = crowd_of(daemon, of, seed);
  crowd.clients = overload_clients;
  crowd.rate = plan.times_capacity * capacity / overload_clients;
  crowd.span = plan.overload;
  std::stop_source enough;
  crowd_settings probe = crowd_of(daemon, of, seed);
  probe.clients = 1;
  probe.rate = std::min(probes_per_second, capacity / 10);
  probe.span = longest_watch;
  probe.stop = enough.get_token();
  pressing pressed_by(crowd);
  measured made;
  auto probing = std::async(std::launch::async, [&] { return run_answered_crowd(probe); });
  std::this_thread::sleep_for(plan.before);
  hold_down(pressed_by, daemon.pid(), plan.overload, made);
  std::this_thread::sleep_for(plan.after);
  enough.request_stop();
  made.crowd = pressed_by.outcome();
  made.probes = probing.get();
  return made;
}

// Both by the seconds since the crowd began.
struct memory_series {
  std::vector<double> seconds;
  std::vector<double> resident_mib;
};

memory_series series_of(const measured& run) {
  memory_series made;
  for (const sample& each : run.memory) {
    made.seconds.push_back(seconds(each.at - run.crowd.begin));
    made.resident_mib.push_back(each.resident_mib);
  }
  return made;
}

overload_outcome outcome_of(const measured& run, const recovery& seen, const memory_series& memory, double span,
                            std::size_t bytes) {
  overload_outcome made{.sent = run.crowd.sent,
                        .unanswered = run.crowd.unanswered,
                        .told = count_of(run.crowd.errors, "OVERFLOW") + count_of(run.probes.errors, "OVERFLOW"),
                        .memory = halves_of(memory.seconds, memory.resident_mib, span),
                        .probes_after = seen.after,
                        .recovery_s = seen.seconds};
  made.margin_mib =
      memory_margin_mib(made.memory.first_mib, mebibytes(static_cast<double>(run.crowd.sent * bytes)) / span);
  return made;
}

}  // namespace

ordered_json overload(const testing::daemon_process& daemon, const overload_case& of, double capacity,
                      const overload_plan& plan, std::uint64_t seed) {
  testing::raw_peer asking(daemon.endpoint());
  const losses before = losses_of(asking, of.pipeline);
  const measured run = press(daemon, of, capacity, plan, seed);
  const losses after = losses_of(asking, of.pipeline);
  const auto begin = run.crowd.begin - run.probes.begin;
  const recovery seen = recovery_of(run.probes.results, begin, begin + plan.overload);
  const memory_series memory = series_of(run);
  const double span = seconds(plan.overload);
  overload_outcome outcome = outcome_of(run, seen, memory, span, of.floats * sizeof(float));
  outcome.dropped = after.requests - before.requests;
  return {{"sent", run.crowd.sent},
          {"results", run.crowd.results},
          {"refusals", run.crowd.errors},
          {"unanswered", outcome.unanswered},
          {"dropped", outcome.dropped},
          {"told", outcome.told},
          {"replies_dropped", after.replies - before.replies},
          {"first_half_mib", outcome.memory.first_mib},
          {"second_half_mib", outcome.memory.second_mib},
          {"margin_mib", outcome.margin_mib},
          {"resident_growth", outcome.memory.growth()},
          {"normal_us", seen.normal_us},
          {"overloaded_us", seen.overloaded_us},
          {"recovery_s", seen.seconds},
          {"drained_s", seconds(run.drained - run.crowd.begin) - span},
          {"failures", complaints_of(outcome)},
          {"memory_s", memory.seconds},
          {"resident_mib", memory.resident_mib}};
}

}  // namespace penstock::bench
