#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/closed_loop.hpp"

namespace penstock::bench {

/// Closed loops that take turns: every contender once, then every contender again, so that all of them have the
/// machine's moods in common. The first is the limit of the others.
class race {
 public:
  void add(std::string name, const closed_loop_settings& settings);
  /// Each one once, uncounted.
  void warm_up(std::chrono::milliseconds span);
  /// Each one once.
  void turn(std::chrono::milliseconds span);

  /// By name: {"requests_per_second", "latency_p50_us", "latency_p99_us", "of_limit"}, each a spread of the turns. The
  /// last is the throughput beside the first contender's in the same turn. And "turns", which has the first two turn by
  /// turn, so that any two contenders can be held against each other (tests/bench/paired_ratio.hpp).
  [[nodiscard]] nlohmann::ordered_json figures() const;
  /// Of one contender's throughput to another's, turn by turn.
  [[nodiscard]] std::vector<double> throughput_ratios(const std::string& of, const std::string& to) const;
  /// Of one contender's p50 to another's, turn by turn.
  [[nodiscard]] std::vector<double> latency_ratios(const std::string& of, const std::string& to) const;

 private:
  struct contender {
    std::string name;
    closed_loop loop;
    std::vector<load_result> results;
  };

  [[nodiscard]] const contender& named(const std::string& name) const;

  std::vector<contender> contenders_;
};

}  // namespace penstock::bench
