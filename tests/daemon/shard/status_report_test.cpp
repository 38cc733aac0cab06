#include "daemon/shard/status_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hand_made_plan.hpp"

namespace penstock {
namespace {

class StatusReport : public ::testing::Test {
 protected:
  [[nodiscard]] nlohmann::json report() const {
    return nlohmann::json::parse(report_status({.server = "penstockd 9",
                                                .instance = "abc",
                                                .state = "ready",
                                                .uptime = std::chrono::milliseconds{1500},
                                                .facts = facts_,
                                                .counters = counters_,
                                                .by_pipeline = by_pipeline_,
                                                .plans = plans_,
                                                .clients = 3,
                                                .slots = 16,
                                                .free_slots = 15,
                                                .batches_in_flight = 1}));
  }

  device_facts facts_{"host", "a processor", "2 threads", 0, ""};
  account counters_;
  std::vector<pipeline_account> by_pipeline_ = std::vector<pipeline_account>(2);
  std::vector<plan> plans_ = testing::hand_made_plans({{}, {}});
};

TEST_F(StatusReport, NamesEveryKindOfErrorAndWhetherTheAccountBalances) {
  counters_.requests = {.accepted = 16, .results = 5, .errors = {0, 1, 2, 3, 0, 4, 0}, .in_flight = 1};
  const nlohmann::json said = report();
  const nlohmann::json expected = {
      {"accepted", 16},
      {"results", 5},
      {"errors",
       {{"REJECTED", 1}, {"EXPIRED", 2}, {"CANCELLED", 3}, {"FAILED", 0}, {"SHUTDOWN", 4}, {"SESSION_LOST", 0}}},
      {"in_flight", 1}};
  EXPECT_EQ(said.at("requests"), expected);
  EXPECT_TRUE(said.at("balanced").get<bool>());
  ++counters_.requests.accepted;
  EXPECT_FALSE(report().at("balanced").get<bool>());
}

TEST_F(StatusReport, CountsRefusalsByStatus) {
  counters_.refused[wire::status::malformed] = 2;
  counters_.refused[wire::status::no_credit] = 1;
  EXPECT_EQ(report().at("refused"), (nlohmann::json{{"MALFORMED", 2}, {"NO_CREDIT", 1}}));
}

TEST_F(StatusReport, HasEveryPipelineWithItsBatchesByReason) {
  by_pipeline_[1].frames = 7;
  by_pipeline_[1].batches = 3;
  by_pipeline_[1].batched_frames = 6;
  by_pipeline_[1].closed = {1, 2, 3, 4, 5};
  const nlohmann::json said = report().at("pipelines");
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[1].at("name"), "pipeline1");
  EXPECT_EQ(said[1].at("frames"), 7);
  EXPECT_EQ(said[1].at("batches"), 3);
  EXPECT_EQ(said[1].at("batched_frames"), 6);
  EXPECT_EQ(said[1].at("closed"),
            (nlohmann::json{{"idle", 1}, {"full", 2}, {"delay", 3}, {"extent", 4}, {"drain", 5}}));
}

TEST_F(StatusReport, TellsDeviceSlotsAndClients) {
  const nlohmann::json said = report();
  EXPECT_EQ(said.at("device").at("backend"), "host");
  EXPECT_EQ(said.at("slots"), (nlohmann::json{{"total", 16}, {"free", 15}}));
  EXPECT_EQ(said.at("clients"), 3);
  EXPECT_EQ(said.at("batches_in_flight"), 1);
  EXPECT_DOUBLE_EQ(said.at("uptime_s").get<double>(), 1.5);
}

}  // namespace
}  // namespace penstock
