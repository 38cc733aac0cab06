#include "tests/bench/race.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

std::vector<double> column(const std::vector<load_result>& results, double load_result::*member) {
  std::vector<double> values;
  for (const load_result& each : results) {
    values.push_back(each.*member);
  }
  return values;
}

}  // namespace

void race::add(std::string name, const closed_loop_settings& settings) {
  contenders_.push_back({std::move(name), closed_loop(settings), {}});
}

void race::warm_up(std::chrono::milliseconds span) {
  for (contender& each : contenders_) {
    each.loop.run(span);
  }
}

void race::turn(std::chrono::milliseconds span) {
  for (contender& each : contenders_) {
    each.results.push_back(each.loop.run(span));
  }
}

nlohmann::ordered_json race::figures() const {
  nlohmann::ordered_json made = nlohmann::ordered_json::object();
  for (const contender& each : contenders_) {
    const std::vector<double> rates = column(each.results, &load_result::requests_per_second);
    const std::vector<double> latencies = column(each.results, &load_result::p50_us);
    made[each.name] = {{"requests_per_second", to_json(spread_of(rates))},
                       {"latency_p50_us", to_json(spread_of(latencies))},
                       {"latency_p99_us", to_json(spread_of(column(each.results, &load_result::p99_us)))},
                       {"of_limit", to_json(spread_of(throughput_ratios(each.name, contenders_.front().name)))},
                       {"turns", {{"requests_per_second", rates}, {"latency_p50_us", latencies}}}};
  }
  return made;
}

std::vector<double> race::throughput_ratios(const std::string& of, const std::string& to) const {
  return ratios(column(named(of).results, &load_result::requests_per_second),
                column(named(to).results, &load_result::requests_per_second));
}

std::vector<double> race::latency_ratios(const std::string& of, const std::string& to) const {
  return ratios(column(named(of).results, &load_result::p50_us), column(named(to).results, &load_result::p50_us));
}

const race::contender& race::named(const std::string& name) const {
  const auto found =
      std::find_if(contenders_.begin(), contenders_.end(), [&](const contender& each) { return each.name == name; });
  if (found == contenders_.end()) {
    throw std::logic_error("no contender is called " + name);
  }
  return *found;
}

}  // namespace penstock::bench
