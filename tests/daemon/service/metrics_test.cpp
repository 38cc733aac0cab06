#include "daemon/service/metrics.hpp"

#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/service/made_up_report.hpp"

namespace penstock::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

const daemon_facts facts{daemon_state::ready, std::chrono::system_clock::time_point(100s), 10s};

// The page, by "name{labels}".
std::map<std::string, double> values_of(const metrics& what) {
  std::map<std::string, double> values;
  std::istringstream page(what.print());
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with('#')) {
      const std::size_t space = line.rfind(' ');
      values[line.substr(0, space)] = std::stod(line.substr(space + 1));
    }
  }
  return values;
}

std::map<std::string, double> scrape(metrics& what, const shard_answers& shards) {
  what.take(facts, shards);
  return values_of(what);
}

TEST(Metrics, SayWhatTheReportCounts) {
  metrics made;
  const auto values = scrape(made, {made_up_report(0, 50)});
  EXPECT_EQ(values.at(R"(penstock_requests_total{outcome="result",pipeline="spectrum"})"), 50);
  EXPECT_EQ(values.at(R"(penstock_requests_total{outcome="expired",pipeline="spectrum"})"), 0);
  EXPECT_EQ(values.at(R"(penstock_requests_in_flight{pipeline="spectrum"})"), 1);
  EXPECT_EQ(values.at(R"(penstock_frames_total{pipeline="spectrum"})"), 51);
  EXPECT_EQ(values.at(R"(penstock_batches_closed_total{pipeline="spectrum",reason="idle"})"), 50);
  EXPECT_EQ(values.at(R"(penstock_refused_total{status="NO_CREDIT"})"), 2);
  EXPECT_EQ(values.at(R"(penstock_refused_total{status="WRONG_SHAPE"})"), 0);
  EXPECT_EQ(values.at(R"(penstock_replies_total{fate="sent"})"), 50);
  EXPECT_EQ(values.at(R"(penstock_payload_bytes_total{direction="in"})"), 5000);
  EXPECT_EQ(values.at(R"(penstock_slots{shard="0",state="used"})"), 1);
  EXPECT_EQ(values.at(R"(penstock_slots{shard="0",state="free"})"), 15);
  EXPECT_EQ(values.at("penstock_sessions"), 2);
  EXPECT_EQ(values.at("penstock_clients"), 1);
  EXPECT_EQ(values.at(R"(penstock_credits_in_use{kind="bytes"})"), 2048);
  EXPECT_EQ(values.at(R"(penstock_credits_granted{kind="requests"})"), 256);
  EXPECT_EQ(values.at(R"(penstock_device_healthy{shard="0"})"), 1);
  EXPECT_EQ(values.at(R"(penstock_device_memory_bytes{device="host",kind="pinned"})"), 4096);
  EXPECT_EQ(values.at(R"(penstock_device_memory_bytes{device="host",kind="device"})"), 8192);
  EXPECT_EQ(values.at(R"(penstock_configuration_info{hash="9f86d081884c7d65"})"), 1);
  EXPECT_EQ(values.at("penstock_configuration_version"), 3);
  EXPECT_EQ(values.at("penstock_start_time_seconds"), 100);
  EXPECT_EQ(values.at("penstock_draining"), 0);
  EXPECT_NEAR(values.at(R"(penstock_stream_busy_seconds_total{shard="0",stream="0",work="compute"})"), 150e-6, 1e-9);
}

TEST(Metrics, SayWhatBecameOfSourcesSamples) {
  metrics made;
  shard_report shard = made_up_report(0, 50);
  source_report& north = shard.sources.emplace_back();
  north.name = "north";
  north.state = source_state::running;
  north.samples = {.expected = 100, .delivered = 70, .network = 20, .overrun = 10};
  north.events.gaps = 2;
  auto values = scrape(made, {shard});
  EXPECT_EQ(values.at(R"(penstock_source_samples_total{fate="network",source="north"})"), 20);
  EXPECT_EQ(values.at(R"(penstock_source_events_total{event="gap",source="north"})"), 2);
  EXPECT_EQ(values.at(R"(penstock_source_up{source="north"})"), 1);
  // Some that were lost come late: the counter stays, and goes on only beyond what it was.
  north.samples = {.expected = 110, .delivered = 80, .network = 15, .overrun = 10, .late = 5};
  north.state = source_state::stalled;
  values = scrape(made, {shard});
  EXPECT_EQ(values.at(R"(penstock_source_samples_total{fate="network",source="north"})"), 20);
  EXPECT_EQ(values.at(R"(penstock_source_samples_total{fate="late",source="north"})"), 5);
  EXPECT_EQ(values.at(R"(penstock_source_up{source="north"})"), 0);
  // A reload made it anew.
  north.samples = {.expected = 5, .delivered = 5};
  values = scrape(made, {shard});
  EXPECT_EQ(values.at(R"(penstock_source_samples_total{fate="delivered",source="north"})"), 85);
}

TEST(Metrics, SayWhatBecameOfSinksResults) {
  metrics made;
  shard_report shard = made_up_report(0, 50);
  sink_report& disk = shard.sinks.emplace_back();
  disk.name = "disk";
  disk.state = sink_state::full;
  disk.results = {.expected = 100, .delivered = 70, .dropped = 20, .waiting = 10};
  disk.bytes = 7000;
  disk.pauses = 2;
  auto values = scrape(made, {shard});
  EXPECT_EQ(values.at(R"(penstock_sink_results_total{fate="dropped",sink="disk"})"), 20);
  EXPECT_EQ(values.at(R"(penstock_sink_bytes_total{sink="disk"})"), 7000);
  EXPECT_EQ(values.at(R"(penstock_sink_pauses_total{sink="disk"})"), 2);
  EXPECT_EQ(values.at(R"(penstock_sink_waiting_results{sink="disk"})"), 10);
  EXPECT_EQ(values.at(R"(penstock_sink_up{sink="disk"})"), 0);
  // A reload made it anew.
  disk.results = {.expected = 5, .delivered = 5};
  values = scrape(made, {shard});
  EXPECT_EQ(values.at(R"(penstock_sink_results_total{fate="delivered",sink="disk"})"), 75);
}

TEST(Metrics, HaveHistogramsWithTheReportsSumAndCount) {
  metrics made;
  (void)scrape(made, {made_up_report(0, 20)});
  const auto values = scrape(made, {made_up_report(0, 50)});
  const auto total = [&](const std::string& part) { return values.at("penstock_request_duration_seconds" + part); };
  EXPECT_EQ(total(R"(_count{pipeline="spectrum",step="total"})"), 50);
  EXPECT_NEAR(total(R"(_sum{pipeline="spectrum",step="total"})"), 0.15, 1e-9);
  EXPECT_EQ(total(R"(_bucket{pipeline="spectrum",step="total",le="0.0025"})"), 0);
  EXPECT_EQ(total(R"(_bucket{pipeline="spectrum",step="total",le="0.005"})"), 50);
  EXPECT_EQ(total(R"(_bucket{pipeline="spectrum",step="total",le="+Inf"})"), 50);
  EXPECT_EQ(values.at(R"(penstock_batch_duration_seconds_count{pipeline="spectrum",step="copy_in"})"), 50);
  EXPECT_EQ(values.at(R"(penstock_batch_frames_count{pipeline="spectrum"})"), 50);
  EXPECT_EQ(values.at(R"(penstock_batch_frames_sum{pipeline="spectrum"})"), 50);
  EXPECT_EQ(values.at(R"(penstock_batch_frames_bucket{pipeline="spectrum",le="1"})"), 50);
}

TEST(Metrics, AddTheShardsTogether) {
  metrics made;
  const auto values = scrape(made, {made_up_report(0, 50), made_up_report(1, 7)});
  EXPECT_EQ(values.at(R"(penstock_requests_total{outcome="result",pipeline="spectrum"})"), 57);
  EXPECT_EQ(values.at(R"(penstock_requests_in_flight{pipeline="spectrum"})"), 2);
  EXPECT_EQ(values.at("penstock_clients"), 2);
  EXPECT_EQ(values.at(R"(penstock_request_duration_seconds_count{pipeline="spectrum",step="total"})"), 57);
}

TEST(Metrics, CountWhatASilentShardDidOnceItAnswers) {
  metrics made;
  (void)scrape(made, {made_up_report(0, 50), made_up_report(1, 7)});
  auto values = scrape(made, {made_up_report(0, 60), std::nullopt});
  EXPECT_EQ(values.at(R"(penstock_shard_up{shard="1"})"), 0);
  EXPECT_EQ(values.at(R"(penstock_requests_total{outcome="result",pipeline="spectrum"})"), 67);
  EXPECT_EQ(values.at("penstock_clients"), 2) << "as last known";
  values = scrape(made, {made_up_report(0, 60), made_up_report(1, 9)});
  EXPECT_EQ(values.at(R"(penstock_shard_up{shard="1"})"), 1);
  EXPECT_EQ(values.at(R"(penstock_requests_total{outcome="result",pipeline="spectrum"})"), 69);
}

// Pipelines come, go and begin anew, shards are silent: whatever the reports say, nothing that is counted falls.
TEST(Metrics, NeverCountBackwards) {
  std::mt19937_64 random(3);
  metrics made;
  std::map<std::string, double> before;
  for (int each = 0; each < 200; ++each) {
    shard_answers shards;
    for (std::uint32_t shard = 0; shard < 3; ++shard) {
      shards.emplace_back(made_up_report(shard, random() % 1000, random() % 2 == 0 ? "spectrum" : "voice"));
      shards.back()->streams[0].batches += random() % 5000;
      if (random() % 4 == 0) {
        shards.back().reset();
      }
    }
    const auto now = scrape(made, shards);
    for (const auto& [name, value] : before) {
      if (name.find("_total") != name.npos || name.find("_bucket") != name.npos || name.find("_count{") != name.npos) {
        ASSERT_TRUE(now.contains(name)) << name;
        ASSERT_GE(now.at(name), value) << name;
      }
    }
    before = now;
  }
}

TEST(Metrics, KeepTheCountsOfAPipelineThatWasRemoved) {
  metrics made;
  (void)scrape(made, {made_up_report(0, 50)});
  auto values = scrape(made, {made_up_report(0, 5, "voice")});
  EXPECT_EQ(values.at(R"(penstock_requests_total{outcome="result",pipeline="spectrum"})"), 50);
  EXPECT_EQ(values.at(R"(penstock_requests_in_flight{pipeline="spectrum"})"), 0);
  values = scrape(made, {made_up_report(0, 8)});
  EXPECT_EQ(values.at(R"(penstock_requests_total{outcome="result",pipeline="spectrum"})"), 58) << "it began anew";
}

TEST(Metrics, TakeTheTimedBatchesOfAStreamForAll) {
  metrics made;
  shard_report report = made_up_report(0, 0);
  const auto busy = [&](std::uint64_t batches, std::uint64_t timed, std::chrono::nanoseconds compute) {
    report.streams[0] = {.compute = compute, .timed_batches = timed, .batches = batches};
    return scrape(made, {report}).at(R"(penstock_stream_busy_seconds_total{shard="0",stream="0",work="compute"})");
  };
  EXPECT_NEAR(busy(100, 10, 1ms), 0.010, 1e-9);
  EXPECT_NEAR(busy(200, 10, 1ms), 0.010, 1e-9) << "none was timed";
  EXPECT_NEAR(busy(300, 20, 3ms), 0.010 + 0.002 * 20, 1e-9) << "the 200 since then, by the 10 of them that were";
}

TEST(Metrics, ShowTheHashThatIsServedAlone) {
  metrics made;
  shard_report report = made_up_report(0, 1);
  (void)scrape(made, {report});
  report.configuration = {.version = 4, .hash = "cafe"};
  made.take(facts, {report});
  EXPECT_THAT(made.print(), HasSubstr(R"(penstock_configuration_info{hash="cafe"} 1)"));
  EXPECT_THAT(made.print(), Not(HasSubstr("9f86d081884c7d65")));
}

TEST(Metrics, CountReloadsByWhatBecameOfThem) {
  metrics made;
  made.count_reload({.changed = true, .version = 2, .hash = "a", .error = ""});
  made.count_reload({.changed = false, .version = 2, .hash = "a", .error = ""});
  made.count_reload({.changed = false, .version = 2, .hash = "a", .error = "line 3 is wrong"});
  made.count_reload({.changed = false, .version = 2, .hash = "a", .error = "line 4 is wrong"});
  const auto values = values_of(made);
  EXPECT_EQ(values.at(R"(penstock_reloads_total{outcome="changed"})"), 1);
  EXPECT_EQ(values.at(R"(penstock_reloads_total{outcome="unchanged"})"), 1);
  EXPECT_EQ(values.at(R"(penstock_reloads_total{outcome="refused"})"), 2);
}

TEST(Metrics, HaveNoLabelForClients) {
  metrics made;
  made.take(facts, {made_up_report(0, 1)});
  EXPECT_THAT(made.print(), Not(HasSubstr("radio")));
}

}  // namespace
}  // namespace penstock::testing
