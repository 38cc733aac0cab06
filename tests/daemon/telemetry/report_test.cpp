#include "daemon/telemetry/report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "proto/message.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;

class StatusReport : public ::testing::Test {
 protected:
  [[nodiscard]] nlohmann::json report() const { return nlohmann::json::parse(report_status(report_)); }

  shard_report report_{.server = "penstockd 9",
                       .instance = "abc",
                       .state = "ready",
                       .uptime = std::chrono::milliseconds{1500},
                       .configuration = {.version = 3, .hash = "5ca1ab1e"},
                       .facts = {.backend = "host", .name = "a processor", .detail = "2 threads"},
                       .pipelines = {{"first", {}, {}}, {"second", {}, {}}},
                       .clients = std::vector<client_report>(3),
                       .slots = 16,
                       .free_slots = 15,
                       .batches_in_flight = 1};
};

TEST_F(StatusReport, NamesEveryKindOfErrorAndWhetherTheAccountBalances) {
  report_.counters.requests = {.accepted = 16, .results = 5, .errors = {0, 1, 2, 3, 0, 4, 0}, .in_flight = 1};
  const nlohmann::json said = report();
  const nlohmann::json expected = {
      {"accepted", 16},
      {"results", 5},
      {"errors",
       {{"REJECTED", 1}, {"EXPIRED", 2}, {"CANCELLED", 3}, {"FAILED", 0}, {"SHUTDOWN", 4}, {"SESSION_LOST", 0}}},
      {"in_flight", 1}};
  EXPECT_EQ(said.at("requests"), expected);
  EXPECT_TRUE(said.at("balanced").get<bool>());
  ++report_.counters.requests.accepted;
  EXPECT_FALSE(report().at("balanced").get<bool>());
}

TEST_F(StatusReport, CountsRefusalsByStatus) {
  report_.counters.refused[wire::status::malformed] = 2;
  report_.counters.refused[wire::status::no_credit] = 1;
  EXPECT_EQ(report().at("refused"), (nlohmann::json{{"MALFORMED", 2}, {"NO_CREDIT", 1}}));
}

TEST_F(StatusReport, HasEveryPipelineWithItsBatchesByReason) {
  report_.pipelines[1].counters.frames = 7;
  report_.pipelines[1].counters.batches = 3;
  report_.pipelines[1].counters.batched_frames = 6;
  report_.pipelines[1].counters.closed = {1, 2, 3, 4, 5};
  const nlohmann::json said = report().at("pipelines");
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[1].at("name"), "second");
  EXPECT_EQ(said[1].at("frames"), 7);
  EXPECT_EQ(said[1].at("batches"), 3);
  EXPECT_EQ(said[1].at("batched_frames"), 6);
  EXPECT_EQ(said[1].at("closed"),
            (nlohmann::json{{"idle", 1}, {"full", 2}, {"delay", 3}, {"extent", 4}, {"drain", 5}}));
}

TEST_F(StatusReport, FitsABodyAndSaysHowManyPipelinesItLeavesOut) {
  report_.pipelines.assign(1000, {std::string(40, 'p'), {}, {}});
  const std::string body = report_status(report_);
  EXPECT_LE(body.size(), wire::max_body_bytes);
  const nlohmann::json said = nlohmann::json::parse(body);
  EXPECT_GT(said.at("pipelines").size(), 100U);
  EXPECT_EQ(said.at("pipelines").size() + said.at("pipelines_left_out").get<std::size_t>(), 1000U);
  report_.pipelines.resize(2);
  EXPECT_FALSE(report().contains("pipelines_left_out"));
}

TEST_F(StatusReport, TellsDeviceSlotsClientsAndTheConfiguration) {
  const nlohmann::json said = report();
  EXPECT_EQ(said.at("device").at("backend"), "host");
  EXPECT_EQ(said.at("slots"), (nlohmann::json{{"total", 16}, {"free", 15}}));
  EXPECT_EQ(said.at("configuration"), (nlohmann::json{{"version", 3}, {"hash", "5ca1ab1e"}}));
  EXPECT_EQ(said.at("clients"), 3);
  EXPECT_EQ(said.at("batches_in_flight"), 1);
  EXPECT_DOUBLE_EQ(said.at("uptime_s").get<double>(), 1.5);
}

TEST_F(StatusReport, GivesQuantilesOfTimesInMicroseconds) {
  report_.pipelines[1].timing.total.record(1us, 50);
  report_.pipelines[1].timing.total.record(2048us, 50);
  const nlohmann::json said = report().at("pipelines").at(1).at("timing_us");
  ASSERT_EQ(said.size(), 1U);
  const nlohmann::json& total = said.at("total");
  EXPECT_EQ(total.at("count"), 100);
  EXPECT_NEAR(total.at("p50").get<double>(), 1, 1.0 / 16);
  EXPECT_NEAR(total.at("p90").get<double>(), 2048, 2048.0 / 16);
  EXPECT_DOUBLE_EQ(total.at("max").get<double>(), 2048);
  EXPECT_DOUBLE_EQ(total.at("sum").get<double>(), 50 + 50 * 2048);
}

TEST_F(StatusReport, LeavesOutTimesThatWereNeverTaken) {
  EXPECT_FALSE(report().at("pipelines").at(0).contains("timing_us"));
}

TEST_F(StatusReport, FitsABodyWhateverIsTimed) {
  report_.pipelines.clear();
  for (std::size_t index = 0; index < 150; ++index) {
    report_.pipelines.push_back({"pipeline" + std::to_string(index), {}, {}});
  }
  for (pipeline_report& pipeline : report_.pipelines) {
    pipeline_timing& each = pipeline.timing;
    for (time_histogram* const times :
         {&each.queued, &each.device, &each.total, &each.copy_in, &each.compute, &each.copy_out}) {
      times->record(123'456'789ns, 1'000'000'007);
    }
  }
  const std::string body = report_status(report_);
  EXPECT_LE(body.size(), wire::max_body_bytes);
  EXPECT_GE(body.size(), wire::max_body_bytes - 2000);
  const nlohmann::json pipelines = nlohmann::json::parse(body).at("pipelines");
  EXPECT_TRUE(pipelines.front().contains("timing_us"));
  EXPECT_FALSE(pipelines.back().contains("timing_us"));
}

}  // namespace
}  // namespace penstock
