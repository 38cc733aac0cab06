#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "daemon/shard/status_report.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;

class StatusTiming : public ::testing::Test {
 protected:
  explicit StatusTiming(std::size_t pipelines = 2) {
    of_.server = "penstockd 9";
    for (std::size_t index = 0; index < pipelines; ++index) {
      of_.pipelines.push_back({"pipeline" + std::to_string(index), {}, {}});
    }
  }

  [[nodiscard]] std::string report() const { return report_status(of_); }

  shard_report of_;
};

class StatusTimingOfMany : public StatusTiming {
 protected:
  StatusTimingOfMany() : StatusTiming(150) {}
};

TEST_F(StatusTiming, GivesQuantilesInMicroseconds) {
  of_.pipelines[1].timing.total.record(1us, 50);
  of_.pipelines[1].timing.total.record(2048us, 50);
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
  for (pipeline_report& of : of_.pipelines) {
    pipeline_timing& each = of.timing;
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
