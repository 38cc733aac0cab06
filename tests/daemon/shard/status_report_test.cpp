#include "daemon/shard/status_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "proto/message.hpp"

namespace penstock {
namespace {

class StatusReport : public ::testing::Test {
 protected:
  [[nodiscard]] nlohmann::json report() const { return nlohmann::json::parse(report_status(of_)); }

  shard_report of_{.server = "penstockd 9",
                   .instance = "abc",
                   .state = "ready",
                   .uptime = std::chrono::milliseconds{1500},
                   .configuration = {.version = 3, .hash = "5ca1ab1e"},
                   .facts = {"host", "a processor", "2 threads", 0, ""},
                   .pipelines = {{"first", {}, {}}, {"second", {}, {}}},
                   .clients = std::vector<client_report>(3),
                   .slots = 16,
                   .free_slots = 15,
                   .batches_in_flight = 1};
};

TEST_F(StatusReport, NamesEveryKindOfErrorAndWhetherTheAccountBalances) {
  of_.counters.requests = {.accepted = 16, .results = 5, .errors = {0, 1, 2, 3, 0, 4, 0}, .in_flight = 1};
  const nlohmann::json said = report();
  const nlohmann::json expected = {
      {"accepted", 16},
      {"results", 5},
      {"errors",
       {{"REJECTED", 1}, {"EXPIRED", 2}, {"CANCELLED", 3}, {"FAILED", 0}, {"SHUTDOWN", 4}, {"SESSION_LOST", 0}}},
      {"in_flight", 1}};
  EXPECT_EQ(said.at("requests"), expected);
  EXPECT_TRUE(said.at("balanced").get<bool>());
  ++of_.counters.requests.accepted;
  EXPECT_FALSE(report().at("balanced").get<bool>());
}

TEST_F(StatusReport, CountsRefusalsByStatus) {
  of_.counters.refused[wire::status::malformed] = 2;
  of_.counters.refused[wire::status::no_credit] = 1;
  EXPECT_EQ(report().at("refused"), (nlohmann::json{{"MALFORMED", 2}, {"NO_CREDIT", 1}}));
}

TEST_F(StatusReport, HasEveryPipelineWithItsBatchesByReason) {
  of_.pipelines[1].counters.frames = 7;
  of_.pipelines[1].counters.batches = 3;
  of_.pipelines[1].counters.batched_frames = 6;
  of_.pipelines[1].counters.closed = {1, 2, 3, 4, 5};
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
  of_.pipelines.assign(1000, {std::string(40, 'p'), {}, {}});
  const std::string body = report_status(of_);
  EXPECT_LE(body.size(), wire::max_body_bytes);
  const nlohmann::json said = nlohmann::json::parse(body);
  EXPECT_GT(said.at("pipelines").size(), 100U);
  EXPECT_EQ(said.at("pipelines").size() + said.at("pipelines_left_out").get<std::size_t>(), 1000U);
  of_.pipelines.resize(2);
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

}  // namespace
}  // namespace penstock
