#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "daemon/service/http_routes.hpp"
#include "tests/daemon/service/made_up_report.hpp"

namespace penstock::testing {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class ShardReports : public ::testing::Test {
 protected:
  void ask() {
    reports_.ask([this](const auto& shards) {
      ++answered_;
      last_ = shards;
    });
  }
  void answer(shard_answers with) { std::exchange(pending_, nullptr)(std::move(with)); }

  time_point now_{1h};
  int asked_ = 0;
  int answered_ = 0;
  std::shared_ptr<const shard_answers> last_;
  std::function<void(shard_answers)> pending_;
  shard_reports reports_{[this](auto done) {
                           ++asked_;
                           pending_ = std::move(done);
                         },
                         [this] { return now_; }};
};

TEST_F(ShardReports, AskTheShardsOnceForAllWhoWait) {
  ask();
  ask();
  ask();
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(answered_, 0);
  answer({made_up_report(0, 7)});
  EXPECT_EQ(answered_, 3);
  EXPECT_EQ(last_->at(0)->counters.requests.results, 7U);
}

TEST_F(ShardReports, GiveTheSameAnswerForAShortTime) {
  ask();
  answer({made_up_report(0, 7)});
  now_ += 99ms;
  ask();
  EXPECT_EQ(answered_, 2);
  EXPECT_EQ(asked_, 1);
  now_ += 1ms;
  ask();
  EXPECT_EQ(asked_, 2);
  answer({made_up_report(0, 8)});
  EXPECT_EQ(last_->at(0)->counters.requests.results, 8U);
}

TEST_F(ShardReports, AskAgainAtOnceWhenAShardWasSilent) {
  ask();
  answer({std::nullopt});
  EXPECT_EQ(answered_, 1);
  ask();
  EXPECT_EQ(asked_, 2);
}

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
  EXPECT_EQ(shard.at("clients"), json::array({{{"name", "radio"},
                                               {"place", 4},
                                               {"requests", 1},
                                               {"bytes", 2048},
                                               {"results", 50},
                                               {"dropped", 0},
                                               {"subscriptions", 0},
                                               {"published", 0},
                                               {"lost", 0},
                                               {"source", false}}}));
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

constexpr std::int64_t now_ns = 3'600'000'000'000;

json batch(std::uint64_t number, std::chrono::nanoseconds ago) {
  json made = json::parse(R"({"pipeline": 0, "slot": 1, "close": "full", "frames": 32, "requests": 1,
    "times": [-90000, -80000, -1000, 40000, 45000], "streams": [0], "refs": [[-90000, 4, 1001, 0, 0, 0]]})");
  made["n"] = number;
  made["at"] = now_ns - ago.count();
  return made;
}

// A page with these batches and, in something that nobody reads, so many bytes.
timeline_page page(std::uint32_t shard, const std::vector<json>& batches, std::uint64_t next, std::size_t bytes = 0) {
  json made = json::parse(R"({"device": "a device", "pipelines": {"0": {"name": "spectrum", "steps": []}}})");
  made["now_ns"] = now_ns;
  made["shard"] = shard;
  made["batches"] = batches;
  made["padding"] = std::string(bytes, ' ');
  return {made.dump(), next};
}

class TraceCollector : public ::testing::Test {
 protected:
  // Runs it to its end, the shards answering in turn with these rounds.
  json collect(std::chrono::nanoseconds last, std::vector<timeline_answers> rounds) {
    rounds_ = std::move(rounds);
    std::string made;
    traces_.collect(rounds_.at(0).size(), last, [&](std::string text) { made = std::move(text); });
    auto work = boost::asio::make_work_guard(admin_);
    while (traces_.is_busy()) {
      admin_.run_one();
    }
    return made.empty() ? json() : json::parse(made).at("traceEvents");
  }
  static std::size_t count(const json& events, const std::string& name) {
    std::size_t found = 0;
    for (const json& each : events) {
      found += each.at("name") == name ? 1U : 0U;
    }
    return found;
  }

  boost::asio::io_context admin_{1};
  std::vector<timeline_answers> rounds_;
  std::vector<trace_collector::cursors> asked_;
  trace_collector traces_{admin_, [this](const auto& cursors, const auto& done) {
                            asked_.push_back(cursors);
                            done(rounds_.at(asked_.size() - 1));
                          }};
};

TEST_F(TraceCollector, AsksOnForAsLongAsPagesAreFull) {
  constexpr std::size_t full = 60'000;
  const json events = collect(5s, {{page(0, {batch(1, 1s)}, 2, full), page(1, {batch(1, 1s)}, 2)},
                                   {page(0, {batch(2, 500ms)}, 3), timeline_page()}});
  EXPECT_EQ(count(events, "spectrum 1"), 2U);
  EXPECT_EQ(count(events, "spectrum 2"), 1U);
  EXPECT_EQ(count(events, "process_name"), 2U);
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_EQ(asked_[0], (trace_collector::cursors{0, 0}));
  EXPECT_EQ(asked_[1], (trace_collector::cursors{2, std::nullopt}));
}

TEST_F(TraceCollector, LeavesOutWhatIsTooOld) {
  const json events = collect(1s, {{page(0, {batch(1, 2s), batch(2, 500ms)}, 3)}});
  EXPECT_EQ(count(events, "spectrum 1"), 0U);
  EXPECT_EQ(count(events, "spectrum 2"), 1U);
  EXPECT_EQ(count(events, "batched"), 2U) << "both ends of the arrow";
}

TEST_F(TraceCollector, GoesOnWithoutAShardThatDoesNotAnswer) {
  const json events = collect(5s, {{std::nullopt, page(1, {batch(1, 1s)}, 2)}});
  EXPECT_EQ(count(events, "spectrum 1"), 1U);
}

TEST_F(TraceCollector, LetsGoOfTheOldestWhenThereIsTooMuch) {
  constexpr std::size_t full = 60'000;
  constexpr std::uint64_t last = 700;
  std::vector<timeline_answers> rounds;
  for (std::uint64_t number = 1; number <= last; ++number) {
    rounds.push_back({page(0, {batch(number, 1s)}, number + 1, number == last ? 0 : full)});
  }
  const json events = collect(5s, std::move(rounds));
  EXPECT_EQ(count(events, "spectrum 1"), 0U);
  EXPECT_EQ(count(events, "spectrum 700"), 1U);
}

TEST_F(TraceCollector, SaysNothingOfPagesThatCannotBeRead) {
  EXPECT_TRUE(collect(5s, {{timeline_page{"{", 1}}}).is_null());
}

}  // namespace

}  // namespace penstock::testing
