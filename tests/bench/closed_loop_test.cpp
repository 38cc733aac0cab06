// Two echoes that take turns: what is kept of them.

#include "tests/bench/closed_loop.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/servers.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t turns = 3;

// Their processes are there before the first connection.
class Comparison : public ::testing::Test {
 protected:
  void SetUp() override {
    contenders_.add("first", {.endpoint = first_.endpoint(), .hello = false, .in_flight = 16});
    contenders_.add("second", {.endpoint = second_.endpoint(), .hello = false});
    for (std::size_t turn = 0; turn < turns; ++turn) {
      contenders_.turn(milliseconds{20});
    }
  }

  endpoint_source endpoints_;
  echo_server first_{endpoints_.ipc()};
  echo_server second_{endpoints_.ipc()};
  comparison contenders_;
};

TEST_F(Comparison, KeepsEachTurnOfEachContender) {
  const ordered_json figures = contenders_.figures();
  for (const char* const who : {"first", "second"}) {
    for (const char* const key : {"requests_per_second", "latency_p50_us"}) {
      const auto kept = figures.at(who).at("turns").at(key).get<std::vector<double>>();
      EXPECT_EQ(kept.size(), turns);
      EXPECT_THAT(kept, ::testing::Each(::testing::Gt(0)));
      EXPECT_EQ(to_json(spread_of(kept)), figures.at(who).at(key)) << who << ", " << key;
    }
  }
}

TEST_F(Comparison, ComparesTwoContendersTurnByTurn) {
  const ordered_json figures = contenders_.figures();
  const auto turns = [&](const char* name, const char* key) {
    return figures.at(name).at("turns").at(key).get<std::vector<double>>();
  };
  EXPECT_EQ(contenders_.throughput_ratios("second", "first"),
            ratios(turns("second", "requests_per_second"), turns("first", "requests_per_second")));
  EXPECT_EQ(contenders_.latency_ratios("first", "second"),
            ratios(turns("first", "latency_p50_us"), turns("second", "latency_p50_us")));
  EXPECT_EQ(to_json(spread_of(contenders_.throughput_ratios("second", "first"))), figures.at("second").at("of_limit"));
}

}  // namespace
}  // namespace penstock::bench
