#include "tests/bench/overload/overload.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/overload/overload_case.hpp"
#include "tests/bench/overload/overload_run.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

/// A case with its daemon, which is there for all repeats.
class contender {
 public:
  contender(overload_case of, const std::string& backend, const std::string& listen, bool quick)
      : of_(std::move(of)),
        daemon_({backend, "callback", of_.configuration, listen}),
        capacity_(capacity_of(daemon_.endpoint(), of_, quick)) {}

  void press(const overload_plan& plan, std::uint64_t seed) {
    rows_.push_back(overload(daemon_, of_, capacity_, plan, seed));
  }
  [[nodiscard]] ordered_json figures() const {
    return {{"name", of_.name},       {"bytes", of_.floats * sizeof(float)}, {"clients", overload_clients},
            {"credits", of_.credits}, {"capacity_per_second", capacity_},    {"rows", rows_}};
  }
  /// "messages, repeat 2: …"
  [[nodiscard]] std::vector<std::string> failures() const {
    std::vector<std::string> made;
    for (std::size_t at = 0; at < rows_.size(); ++at) {
      for (const ordered_json& each : rows_[at].at("failures")) {
        made.push_back(fmt::format("{}, repeat {}: {}", of_.name, at + 1, each.get<std::string>()));
      }
    }
    return made;
  }
  [[nodiscard]] const std::string& endpoint() const noexcept { return daemon_.endpoint(); }

 private:
  overload_case of_;
  testing::daemon_process daemon_;
  double capacity_;
  ordered_json rows_ = ordered_json::array();
};

overload_plan plan_of(const bench_options& options) {
  return options.quick ? overload_plan{2, milliseconds{250}, milliseconds{1000}, milliseconds{300}}
                       : overload_plan{2, milliseconds{1000}, milliseconds{7000}, milliseconds{2000}};
}

}  // namespace

ordered_json run_overload(const bench_options& options) {
  endpoint_source endpoints;
  std::vector<std::unique_ptr<contender>> all;
  for (const overload_case& each : overload_cases(options.backend)) {
    all.push_back(std::make_unique<contender>(each, options.backend, endpoints.tcp(), options.quick));
  }
  const overload_plan plan = plan_of(options);
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (const auto& each : all) {
      each->press(plan, static_cast<std::uint64_t>(repeat) + 1);
    }
    std::fprintf(stderr, "\roverload: repeat %d of %d   ", repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
  ordered_json result = {{"benchmark", "overload"},
                         {"machine", machine_facts()},
                         {"device", device_of(all.front()->endpoint())},
                         {"repeats", options.repeats},
                         {"times_capacity", plan.times_capacity},
                         {"seconds", std::chrono::duration<double>(plan.overload).count()},
                         {"cases", ordered_json::array()},
                         {"failures", ordered_json::array()}};
  for (const auto& each : all) {
    result["cases"].push_back(each->figures());
    for (const std::string& failure : each->failures()) {
      std::fprintf(stderr, "overload: %s\n", failure.c_str());
      result["failures"].push_back(failure);
    }
  }
  result["passed"] = result.at("failures").empty();
  return result;
}

}  // namespace penstock::bench
