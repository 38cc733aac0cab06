#include "tests/bench/floors/gate.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "tests/bench/floors/floors.hpp"
#include "tests/bench/floors/shared_trial.hpp"
#include "tests/bench/floors/socket_trial.hpp"
#include "tests/bench/page.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

constexpr gauge gauges[] = {
    {"256 B, one client", "tcp", 256, 1, 1, 64},
    {"256 B, 32 clients", "tcp", 256, 1, 32, 8, true, true},
    {"256 B records, 64 to a request", "tcp", 256, 64, 1, 16},
    {"4 KiB, 8 clients", "tcp", 4096, 1, 8, 16},
    {"64 KiB", "tcp", 65536, 1, 2, 8, false, true},
    {"64 KiB over ipc", "ipc", 65536, 1, 2, 8},
    {"1 MiB", "tcp", 1U << 20U, 1, 2, 4},
    {"4 KiB, one at a time", "tcp", 4096, 1, 1, 1, true, true},
};

using trials = std::vector<std::unique_ptr<trial>>;

// All of them, or those that there was time for.
trials start_trials(const time_limit& within) {
  trials made;
  for (const gauge& each : gauges) {
    if (!within.passed()) {
      made.push_back(std::make_unique<socket_trial>(each));
    }
  }
  if (!within.passed()) {
    made.push_back(std::make_unique<shared_trial>());
  }
  return made;
}

void for_each_in_time(const trials& all, const time_limit& within, void (trial::*step)()) {
  for (const std::unique_ptr<trial>& each : all) {
    if (!within.passed()) {
      (*each.*step)();
    }
  }
}

}  // namespace

std::map<std::string, spread> measure_gate(int repeats, const time_limit& within) {
  const trials all = start_trials(within);
  for_each_in_time(all, within, &trial::connect);
  for (int repeat = 0; repeat < repeats && !within.passed(); ++repeat) {
    for_each_in_time(all, within, &trial::turn);
    std::fprintf(stderr, "\rquick: turn %d of %d   ", repeat + 1, repeats);
  }
  std::fputc('\n', stderr);
  std::map<std::string, spread> made;
  for (const std::unique_ptr<trial>& each : all) {
    if (!within.passed()) {
      each->add_ratios(made);
    }
  }
  return made;
}

bool pass_gate(const std::string& floors_file, int repeats) {
  constexpr int most_rounds = 3;
  const nlohmann::ordered_json floors = read_result(floors_file);
  const time_limit within(time_limit::seconds(floors.at("limit_s").get<double>()));
  std::map<std::string, double> best;
  std::vector<std::string> below;
  for (int round = 0; round < most_rounds; ++round) {
    for (const auto& [name, ratio] : measure_gate(repeats, within)) {
      std::printf("%22s  %s\n", spread_text(to_json(ratio), 1, 3).c_str(), name.c_str());
      const auto [known, is_new] = best.try_emplace(name, ratio.median);
      known->second = std::max(known->second, ratio.median);
    }
    if (within.passed()) {
      std::fprintf(stderr, "the quick gate fails: %s\n", within.text().c_str());
      return false;
    }
    below = below_floors(best, floors);
    for (const std::string& line : below) {
      std::fprintf(stderr, "round %d of at most %d: %s\n", round + 1, most_rounds, line.c_str());
    }
    if (below.empty()) {
      break;
    }
  }
  std::printf("done in %s\n", within.text().c_str());
  return below.empty();
}

}  // namespace penstock::bench
