#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "daemon/shard/status_report.hpp"
#include "proto/message.hpp"
#include "tests/support/hand_made_plan.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;

class StatusTiming : public ::testing::Test {
 protected:
  explicit StatusTiming(std::size_t pipelines = 2)
      : plans_(testing::hand_made_plans(std::vector<testing::plan_wish>(pipelines))),
        by_pipeline_(pipelines),
        timing_(pipelines) {}

  [[nodiscard]] std::string report() const {
    return report_status({.server = "penstockd 9",
                          .instance = "abc",
                          .state = "ready",
                          .uptime = 1500ms,
                          .facts = facts_,
                          .counters = counters_,
                          .by_pipeline = by_pipeline_,
                          .plans = plans_,
                          .timing = timing_});
  }

  device_facts facts_;
  account counters_;
  std::vector<plan> plans_;
  std::vector<pipeline_account> by_pipeline_;
  std::vector<pipeline_timing> timing_;
};

class StatusTimingOfMany : public StatusTiming {
 protected:
  StatusTimingOfMany() : StatusTiming(150) {}
};

TEST_F(StatusTiming, GivesQuantilesInMicroseconds) {
  timing_[1].total.record(1us, 50);
  timing_[1].total.record(2048us, 50);
  const nlohmann::json said = nlohmann::json::parse(report()).at("pipelines").at(1).at("timing_us");
  ASSERT_EQ(said.size(), 1U);
  const nlohmann::json& total = said.at("total");
  EXPECT_EQ(total.at("count"), 100);
  EXPECT_NEAR(total.at("p50").get<double>(), 1, 1.0 / 16);
  EXPECT_NEAR(total.at("p90").get<double>(), 2048, 2048.0 / 16);
  EXPECT_DOUBLE_EQ(total.at("max").get<double>(), 2048);
  EXPECT_DOUBLE_EQ(total.at("sum").get<double>(), 50 + 50 * 2048);
}

TEST_F(StatusTiming, LeavesOutWhatNeverHappened) {
  EXPECT_FALSE(nlohmann::json::parse(report()).at("pipelines").at(0).contains("timing_us"));
}

TEST_F(StatusTimingOfMany, FitsIntoAMessageWhateverIsTimed) {
  for (pipeline_timing& each : timing_) {
    for (time_histogram* const times :
         {&each.queued, &each.device, &each.total, &each.copy_in, &each.compute, &each.copy_out}) {
      times->record(123'456'789ns, 1'000'000'007);
    }
  }
  const std::string body = report();
  EXPECT_LE(body.size(), wire::max_body_bytes);
  EXPECT_GE(body.size(), wire::max_body_bytes - 2000);
  const nlohmann::json pipelines = nlohmann::json::parse(body).at("pipelines");
  EXPECT_TRUE(pipelines.front().contains("timing_us"));
  EXPECT_FALSE(pipelines.back().contains("timing_us"));
}

}  // namespace
}  // namespace penstock
