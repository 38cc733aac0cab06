#include "daemon/admin/http/status_json.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/daemon/admin/http/made_up_report.hpp"

namespace penstock::testing {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

json printed(const shard_answers& shards) {
  return json::parse(print_status({daemon_state::ready, std::chrono::system_clock::time_point(100s), 2500ms}, shards));
}

TEST(StatusJson, SaysOfTheDaemonWhatItIs) {
  const json all = printed({made_up_report(0, 50), std::nullopt});
  EXPECT_EQ(all.at("state"), "ready");
  EXPECT_EQ(all.at("uptime_s"), 2.5);
  EXPECT_EQ(all.at("start_time_s"), 100);
  EXPECT_EQ(all.at("configuration"), (json{{"version", 3}, {"hash", "9f86d081884c7d65"}}));
  EXPECT_EQ(all.at("missing_shards"), json::array({1}));
  EXPECT_EQ(all.at("shards").size(), 1U);
}

TEST(StatusJson, SaysOfAShardWhatItsReportSays) {
  shard_report report = made_up_report(2, 50);
  report.batches_in_flight = 3;
  report.since_completion = 4ms;
  const json shard = printed({report}).at("shards")[0];
  EXPECT_EQ(shard.at("shard"), 2);
  EXPECT_EQ(shard.at("requests").at("results"), 50);
  EXPECT_EQ(shard.at("requests").at("errors").size(), 6U);
  EXPECT_EQ(shard.at("refused"), (json{{"NO_CREDIT", 2}}));
  EXPECT_EQ(shard.at("slots"), (json{{"total", 16}, {"free", 15}}));
  EXPECT_EQ(shard.at("sessions"), (json{{"open", 2}, {"most", 64}}));
  EXPECT_EQ(shard.at("credit"), (json{{"requests", 256}, {"bytes", 1 << 20}}));
  EXPECT_EQ(shard.at("batches_in_flight"), 3);
  EXPECT_EQ(shard.at("since_completion_s"), 0.004);
  EXPECT_EQ(shard.at("device").at("error"), "");
  EXPECT_EQ(shard.at("streams"), json::array({{{"stream", 0},
                                               {"copy_in_ns", 50'000},
                                               {"compute_ns", 150'000},
                                               {"copy_out_ns", 0},
                                               {"batches", 50},
                                               {"timed_batches", 50}}}));
  EXPECT_EQ(
      shard.at("clients"),
      json::array(
          {{{"name", "radio"}, {"place", 4}, {"requests", 1}, {"bytes", 2048}, {"results", 50}, {"dropped", 0}}}));
}

TEST(StatusJson, SaysOfAPipelineHowLargeItsBatchesAreAndHowLongItTakes) {
  shard_report report = made_up_report(0, 50);
  report.pipelines[0].counters.batch_sizes[8] = 4;
  report.pipelines[0].counters.batch_sizes.back() = 1;
  report.pipelines[0].timing.total.record(1us);
  const json pipeline = printed({report}).at("shards")[0].at("pipelines")[0];
  EXPECT_EQ(pipeline.at("name"), "spectrum");
  EXPECT_EQ(pipeline.at("closed"), (json{{"idle", 50}, {"full", 0}, {"delay", 0}, {"extent", 0}, {"drain", 0}}));
  EXPECT_EQ(pipeline.at("batch_sizes"), json::array({{1, 50}, {256, 4}, {nullptr, 1}}));
  const json& times = pipeline.at("timing_us");
  EXPECT_EQ(times.size(), 2U) << "of what was measured";
  EXPECT_EQ(times.at("copy_in").at("count"), 50);
  EXPECT_EQ(times.at("total").at("count"), 51);
  EXPECT_EQ(times.at("total").at("max"), 3000);
  ASSERT_EQ(times.at("total").at("buckets").size(), 2U);
  EXPECT_EQ(times.at("total").at("buckets")[0][1], 1);
  EXPECT_EQ(times.at("total").at("buckets")[1][1], 50);
  EXPECT_NEAR(times.at("total").at("buckets")[1][0].get<double>(), 3000, 3000.0 / 16);
}

TEST(StatusJson, TakesNamesThatAreNoText) {
  shard_report report = made_up_report(0, 1);
  report.clients[0].name = "\xff\"\n";
  EXPECT_TRUE(printed({report}).at("shards")[0].at("clients")[0].at("name").is_string());
}

TEST(StatusJson, SpeaksOfTheOldestConfigurationThatIsServed) {
  shard_report ahead = made_up_report(1, 1);
  ahead.configuration = {.version = 4, .hash = "cafe"};
  EXPECT_EQ(configuration_of({ahead, made_up_report(0, 1)}).version, 3U);
  EXPECT_EQ(configuration_of({ahead, std::nullopt}).hash, "cafe");
}

}  // namespace
}  // namespace penstock::testing
