#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// A limit on the duration of something, counted from the construction and asked for between its steps.
class time_limit {
 public:
  using clock = std::chrono::steady_clock;
  using seconds = std::chrono::duration<double>;

  explicit time_limit(seconds limit, std::function<clock::time_point()> now = clock::now);

  [[nodiscard]] bool passed() const { return elapsed() > limit_; }
  /// "79 s of at most 180 s"; once it has passed, possible reasons.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] seconds elapsed() const { return now_() - begin_; }

  seconds limit_;
  std::function<clock::time_point()> now_;
  clock::time_point begin_;
};

/// Compares ratios with {"margin": 0.3, "margins": {"NAME": 0.2, ...}, "floors": {"NAME": 0.5, ...}}. A margin is the
/// part of the floor that noise and another machine may take away; "margins" (optional) are for single ratios.
///
/// Returns a line for each ratio below its floor less the margin, for each floor without a ratio, and for each ratio or
/// margin without a floor. Throws nlohmann::json::exception if `floors` has another form.
///
/// The floors in floors.json are medians of ten runs on two cores that other programs may have used. The runs deviate
/// by 2 to 9 %, so that 30 % are over three deviations; records deviate by 11 %. One more copy of each frame in shared
/// memory costs 27 %, so its margin is narrower. The echo of 1 MiB runs at one of two speeds and the daemon reaches 0.9
/// or 2 times it: the floor is for the faster echo, with a wide margin.
[[nodiscard]] std::vector<std::string> below_floors(const std::map<std::string, double>& ratios,
                                                    const nlohmann::ordered_json& floors);

/// The gate of CI, on the host backend: measures a few ratios and compares their medians with the floors of the file.
/// If one is below, starts and measures everything again, three times at most, and takes the best median of each ratio:
/// other load on the machine slows one round, a slower daemon slows all. "limit_s" in the file limits all rounds
/// together. Prints ratios, failures and duration. Returns whether no ratio is below its floor within that time.
[[nodiscard]] bool run_quick_gate(const std::string& floors_file, int repeats);

}  // namespace penstock::bench
