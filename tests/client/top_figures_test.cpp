#include "client/cli/top_figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock::cli {
namespace {

using nlohmann::json;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Field;

// What a daemon of one shard says after so many seconds of steady work.
json document(double seconds) {
  const auto count = [seconds](double a_second) { return static_cast<std::uint64_t>(seconds * a_second); };
  const json total{{"buckets", json::array({json::array({100.0, count(900)}), json::array({400.0, count(100)})})}};
  const json pipeline{{"name", "spectrum"},
                      {"requests", {{"results", count(1000)}, {"errors", {{"EXPIRED", count(2)}}}, {"in_flight", 3}}},
                      {"batches", count(50)},
                      {"batched_frames", count(2000)},
                      {"closed", {{"idle", count(40)}, {"full", count(10)}}},
                      {"timing_us", {{"total", total}}}};
  const json stream{
      {"stream", 0},          {"copy_in_ns", count(1e8)},  {"compute_ns", count(2e8)}, {"copy_out_ns", count(5e7)},
      {"batches", count(50)}, {"timed_batches", count(25)}};
  const json client{{"name", "radio"}, {"place", 4},           {"requests", 64},
                    {"bytes", 1000},   {"results", count(10)}, {"dropped", count(1)}};
  const json shard{{"shard", 0},
                   {"state", "ready"},
                   {"instance", "a"},
                   {"uptime_s", seconds},
                   {"device", {{"name", "H200"}, {"backend", "cuda"}, {"detail", "runtime 13.0"}, {"error", ""}}},
                   {"requests", {{"results", count(1000)}, {"errors", {{"EXPIRED", count(2)}}}, {"in_flight", 3}}},
                   {"refused", {{"NO_CREDIT", count(4)}}},
                   {"payload_bytes", {{"in", count(1e6)}, {"out", count(2e6)}}},
                   {"credit", {{"requests", 256}, {"bytes", 2000}}},
                   {"slots", {{"total", 16}, {"free", 4}}},
                   {"streams", json::array({stream})},
                   {"pipelines", json::array({pipeline})},
                   {"clients", json::array({client})}};
  return {{"server", "penstockd 1"},
          {"state", "ready"},
          {"uptime_s", seconds},
          {"configuration", {{"version", 3}, {"hash", "abc"}}},
          {"missing_shards", json::array()},
          {"shards", json::array({shard})}};
}

daemon_status status(const json& object) {
  return read_daemon_status(object.dump());
}

TEST(TopFigures, RatesAreDifferencesOverTheTimeBetween) {
  const daemon_status before = status(document(100));
  const top_figures made = figures_of(&before, status(document(102)));
  EXPECT_DOUBLE_EQ(made.interval_s, 2);
  EXPECT_DOUBLE_EQ(made.results_per_s, 1000);
  EXPECT_DOUBLE_EQ(made.frames_per_s, 2000);
  EXPECT_DOUBLE_EQ(made.errors_per_s, 2);
  EXPECT_DOUBLE_EQ(made.refused_per_s, 4);
  EXPECT_DOUBLE_EQ(made.bytes_out_per_s, 2e6);
  ASSERT_EQ(made.pipelines.size(), 1U);
  const pipeline_figures& pipeline = made.pipelines.front();
  EXPECT_DOUBLE_EQ(pipeline.results_per_s, 1000);
  EXPECT_DOUBLE_EQ(pipeline.frames_per_batch.value(), 40);
  EXPECT_EQ(pipeline.close_reason, "idle");
  EXPECT_DOUBLE_EQ(pipeline.close_share, 0.8);
  EXPECT_EQ(made.shards.front().slots_taken, 12U);
}

TEST(TopFigures, QuantilesAreThoseOfTheInterval) {
  json now = document(102);
  // All that came since was slow, whatever was before.
  now["shards"][0]["pipelines"][0]["timing_us"]["total"]["buckets"] =
      json::array({json::array({100.0, 90000}), json::array({400.0, 10000}), json::array({9000.0, 500})});
  const daemon_status before = status(document(100));
  const top_figures made = figures_of(&before, status(now));
  EXPECT_DOUBLE_EQ(made.pipelines.front().p50_us.value(), 9000);
  const top_figures first = figures_of(nullptr, status(now));
  EXPECT_DOUBLE_EQ(first.interval_s, 0);
  EXPECT_DOUBLE_EQ(first.pipelines.front().p50_us.value(), 100);
  EXPECT_DOUBLE_EQ(first.pipelines.front().p99_us.value(), 400);
}

TEST(TopFigures, WhereNothingHappenedThereIsNoQuantileAndNoBatchSize) {
  json now = document(100);
  now["uptime_s"] = 101;
  now["shards"][0]["uptime_s"] = 101;
  const daemon_status before = status(document(100));
  const top_figures made = figures_of(&before, status(now));
  EXPECT_DOUBLE_EQ(made.interval_s, 1);
  EXPECT_FALSE(made.pipelines.front().p50_us);
  EXPECT_FALSE(made.pipelines.front().frames_per_batch);
  EXPECT_EQ(made.pipelines.front().close_reason, "");
  EXPECT_DOUBLE_EQ(made.results_per_s, 0);
}

TEST(TopFigures, ATimedBatchStandsForThoseThatWereNotTimed) {
  const daemon_status before = status(document(100));
  const stream_figures stream = figures_of(&before, status(document(102))).streams.at(0);
  EXPECT_TRUE(stream.known);
  EXPECT_THAT(stream.copy_in, DoubleNear(0.2, 1e-9));
  EXPECT_THAT(stream.compute, DoubleNear(0.4, 1e-9));
  EXPECT_THAT(stream.copy_out, DoubleNear(0.1, 1e-9));
}

TEST(TopFigures, AStreamOfWhichNoBatchWasTimedIsNotCalledIdle) {
  json now = document(102);
  now["shards"][0]["streams"][0]["timed_batches"] = 2500;
  const daemon_status before = status(document(100));
  EXPECT_FALSE(figures_of(&before, status(now)).streams.at(0).known);
}

TEST(TopFigures, ARestartBeginsAnewAndNoRateIsNegative) {
  json now = document(3);
  now["shards"][0]["instance"] = "b";
  const daemon_status before = status(document(100));
  const top_figures made = figures_of(&before, status(now));
  EXPECT_TRUE(made.restarted);
  EXPECT_DOUBLE_EQ(made.interval_s, 0);
  EXPECT_DOUBLE_EQ(made.results_per_s, 1000);
  EXPECT_GE(made.pipelines.front().errors_per_s, 0);
  EXPECT_GE(made.streams.front().compute, 0);
}

TEST(TopFigures, ACounterThatBeganAgainCountsFromNought) {
  json now = document(102);
  now["shards"][0]["pipelines"][0]["requests"]["results"] = 10;  // a pipeline that a reload took away and brought back
  const daemon_status before = status(document(100));
  EXPECT_DOUBLE_EQ(figures_of(&before, status(now)).pipelines.front().results_per_s, 5);
}

TEST(TopFigures, PipelinesOfOneNameAreAddedUpOverTheShards) {
  const auto two = [](double seconds) {
    json both = document(seconds);
    both["shards"].push_back(both["shards"][0]);
    both["shards"][1]["shard"] = 1;
    return both;
  };
  const daemon_status before = status(two(100));
  const top_figures made = figures_of(&before, status(two(102)));
  ASSERT_EQ(made.pipelines.size(), 1U);
  EXPECT_DOUBLE_EQ(made.pipelines.front().results_per_s, 2000);
  EXPECT_EQ(made.pipelines.front().in_flight, 6U);
  EXPECT_DOUBLE_EQ(made.pipelines.front().frames_per_batch.value(), 40);
  EXPECT_EQ(made.streams.size(), 2U);
  EXPECT_EQ(made.device, "H200 (cuda, runtime 13.0)");
}

TEST(TopFigures, AShardThatDidNotAnswerIsShownAsMissing) {
  json now = document(102);
  now["missing_shards"] = {1};
  const top_figures made = figures_of(nullptr, status(now));
  ASSERT_EQ(made.shards.size(), 2U);
  EXPECT_EQ(made.shards.at(1).number, 1U);
  EXPECT_EQ(made.shards.at(1).state, "missing");
}

TEST(TopFigures, AClientHoldsThePartOfWhicheverCreditIsScarcer) {
  const top_figures made = figures_of(nullptr, status(document(2)));
  EXPECT_DOUBLE_EQ(made.clients.front().held, 0.5);  // 64 of 256 requests, 1000 of 2000 bytes
}

TEST(TopFigures, TheBusiestComeFirstAndNamesBreakTies) {
  top_figures made;
  const auto client = [](const char* name, double held) {
    client_figures figures;
    figures.name = name;
    figures.held = held;
    return figures;
  };
  made.clients = {client("b", 0.1), client("c", 0.9), client("a", 0.1)};
  const auto is = [](const char* name) { return Field(&client_figures::name, name); };
  sort_figures(made, top_order::busy);
  EXPECT_THAT(made.clients, ElementsAre(is("c"), is("a"), is("b")));
  sort_figures(made, top_order::name);
  EXPECT_THAT(made.clients, ElementsAre(is("a"), is("b"), is("c")));
  made.clients[1].dropped_per_s = 1;
  sort_figures(made, top_order::trouble);
  EXPECT_THAT(made.clients, ElementsAre(is("b"), is("a"), is("c")));
}

TEST(TopFigures, WhatIsNoStatusIsRefused) {
  for (const char* const text :
       {"", "[]", "{}", R"({"server":"x","shards":3})", "<html>", R"({"server":"x","shards":[{"requests":7}]})",
        R"({"server":"x","shards":[{"uptime_s":"long"}]})"}) {
    EXPECT_THROW((void)read_daemon_status(text), std::runtime_error) << text;
  }
}

}  // namespace
}  // namespace penstock::cli
