// Two echoes that take turns: what is kept of them.

#include "tests/bench/race.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/echo_server.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/paired_ratio.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t turns = 3;

// Their processes are there before the first connection.
class Race : public ::testing::Test {
 protected:
  void SetUp() override {
    race_.add("first", {.endpoint = first_.endpoint(), .hello = false, .in_flight = 16});
    race_.add("second", {.endpoint = second_.endpoint(), .hello = false});
    for (std::size_t turn = 0; turn < turns; ++turn) {
      race_.turn(milliseconds{20});
    }
  }

  endpoint_source endpoints_;
  echo_server first_{endpoints_.ipc()};
  echo_server second_{endpoints_.ipc()};
  race race_;
};

TEST_F(Race, KeepsEachTurnOfEachContender) {
  const ordered_json figures = race_.figures();
  for (const char* const who : {"first", "second"}) {
    for (const char* const key : {"requests_per_second", "latency_p50_us"}) {
      const auto kept = figures.at(who).at("turns").at(key).get<std::vector<double>>();
      EXPECT_EQ(kept.size(), turns);
      EXPECT_THAT(kept, ::testing::Each(::testing::Gt(0)));
      EXPECT_EQ(to_json(spread_of(kept)), figures.at(who).at(key)) << who << ", " << key;
    }
  }
}

TEST_F(Race, LetsAnyTwoBeHeldAgainstEachOtherTurnByTurn) {
  const paired_ratio times = ratio_between(race_.figures(), "second", "first", throughput_figure);
  EXPECT_TRUE(times.by_turns);
  EXPECT_EQ(to_json(times.times), to_json(spread_of(race_.throughput_ratios("second", "first"))));
  const paired_ratio speed = ratio_between(race_.figures(), "second", "first", latency_figure);
  EXPECT_EQ(to_json(speed.times), to_json(spread_of(race_.latency_ratios("first", "second"))));
}

}  // namespace
}  // namespace penstock::bench
