// The section of `throughput`: its figures, its verdicts and its drawings.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"
#include "tests/bench/made_up_result.hpp"
#include "tests/bench/page.hpp"
#include "tests/bench/sections.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

// Echo 1000, callback 800, poll 900, by hand as told.
ordered_json throughput_row(const char* transport, std::size_t bytes, std::size_t clients, double hand) {
  return {{"transport", transport},
          {"bytes", bytes},
          {"clients", clients},
          {"in_flight", 32},
          {"echo", contender(1000, 50, 1000)},
          {"callback", contender(800, 60, 1000)},
          {"poll", contender(900, 55, 1000)},
          {"hand", contender(hand, 50, 1000)}};
}

ordered_json throughput() {
  ordered_json made = result_of("throughput");
  made["record_bytes"] = 256;
  made["records_a_request"] = 64;
  made["rows"] = {throughput_row("tcp", 256, 1, 100), throughput_row("tcp", 65536, 1, 100),
                  throughput_row("tcp", 256, 32, 150), throughput_row("tcp", 65536, 32, 100)};
  made["records"] = {throughput_row("tcp", 16384, 1, 100)};
  made["one_at_a_time"] = {throughput_row("tcp", 4096, 1, 100)};
  return made;
}

TEST(ThroughputSection, HoldsTheWorstRowOfTheBetterModeAgainstEachAim) {
  const std::string text = aims_table({throughput()});
  EXPECT_THAT(text,
              HasSubstr("64 KiB to 1 MiB over ZeroMQ, of the raw echo | ≥ 90 % | 90 % (90–90), tcp, 64 KiB, 1 client; "
                        "with callbacks, the default, 80 % (80–80), tcp, 64 KiB, 1 client | yes |"));
  EXPECT_THAT(text, HasSubstr("of the server by hand (the better of callback and polled) | ≥ 5 times | 6.0 times, tcp, "
                              "256 B, 32 clients | yes |"));
  EXPECT_THAT(text, HasSubstr("beside the server by hand (the better of callback and polled) | ≤ 10 % longer | +10 %, "
                              "tcp, 4 KiB, 1 client |"));
  EXPECT_THAT(text, HasSubstr("a shard | ≥ 1 M/s | 0.06 M/s (0.06–0.06), tcp, 16 KiB, 1 client | no |"));
}

TEST(ThroughputSection, ShowsTheSharesOfTheTurnsWithTheirSpread) {
  ordered_json made = throughput();
  made["rows"][3]["poll"]["of_limit"] = to_json({0.84, 0.7, 1.1});
  made["rows"][3]["callback"]["of_limit"] = to_json({0.8, 0.75, 1.2});
  EXPECT_THAT(aims_table({made}), HasSubstr("≥ 90 % | 84 % (70–110), tcp, 64 KiB, 32 clients; with callbacks"))
      << "though the medians are 90 % of one another";
}

TEST(ThroughputSection, TakesTheStricterOfTheTurnsAndTheMedians) {
  ordered_json made = throughput();
  made["rows"][1]["poll"] = contender(850, 55, 1000);
  made["rows"][1]["poll"]["of_limit"] = to_json({0.95, 0.8, 1});
  EXPECT_THAT(aims_table({made}), HasSubstr("≥ 90 % | 90 % (90–90), tcp, 64 KiB, 32 clients; by the medians 85 %, tcp, "
                                            "64 KiB, 1 client; with callbacks"));
  EXPECT_THAT(aims_table({made}), HasSubstr("64 KiB, 1 client | no: [0024]"));
}

TEST(ThroughputSection, TellsWhatTwoShardsDoForManySmallRequests) {
  ordered_json made = throughput();
  EXPECT_THAT(aims_table({made}),
              HasSubstr("256 B, many clients, of the raw echo | ≥ 80 % | 90 % (90–90), tcp, 256 B, 32 clients; "
                        "with callbacks, the default, 80 % (80–80), tcp, 256 B, 32 clients | yes |"));
  made["rows"][2]["poll"] = contender(600, 60, 1000);
  made["rows"][2]["callback"] = contender(500, 60, 1000);
  made["rows"][2]["poll_two_shards"] = contender(1400, 60, 1000);
  EXPECT_THAT(aims_table({made}), HasSubstr("256 B, many clients, of the raw echo, one shard | ≥ 80 % | 60 % (60–60), "
                                            "tcp, 256 B, 32 clients; with callbacks, the default, 50 % (50–50), tcp, "
                                            "256 B, 32 clients | no: "));
  EXPECT_THAT(aims_table({made}), HasSubstr("256 B, many clients, of the raw echo, two shards | ≥ 80 % | 140 % "
                                            "(140–140), tcp, 256 B, 32 clients | yes |"));
  EXPECT_THAT(tables_of(made), HasSubstr("daemon, poll, 2 shards"));
  made["rows"][2]["wide_echo"] = contender(2000, 60, 1000);
  EXPECT_THAT(aims_table({made}), HasSubstr("; of one with as many I/O threads 30 %, tcp, 256 B, 32 clients; with"));
  EXPECT_THAT(aims_table({made}), HasSubstr("; of one with as many I/O threads 70 %, tcp, 256 B, 32 clients | yes |"));
  made["rows"][2]["poll_two_shards"] = contender(790, 60, 1000);
  EXPECT_THAT(aims_table({made}),
              HasSubstr("two shards | ≥ 80 % | 79 % (79–79), tcp, 256 B, 32 clients; of one with as "
                        "many I/O threads 40 %, tcp, 256 B, 32 clients | no: "));
}

TEST(ThroughputSection, HoldsCallbacksAgainstAServerWithCallbacks) {
  const char* const row =
      "| one request at a time, stream callbacks (the default), beside the server by hand with stream "
      "callbacks | ≤ 10 % longer | ";
  ordered_json made = throughput();
  EXPECT_THAT(aims_table({made}), Not(HasSubstr(row)));
  made["one_at_a_time"][0]["hand_callback"] = contender(1, 50, 1000);
  EXPECT_THAT(aims_table({made}), HasSubstr(row + std::string("+20 %, tcp, 4 KiB, 1 client | no |")))
      << "60 µs, whatever the 55 µs of the polled daemon are beside it";
  made["one_at_a_time"][0]["hand_callback"] = contender(1, 56, 1000);
  EXPECT_THAT(aims_table({made}), HasSubstr(row + std::string("+7 %, tcp, 4 KiB, 1 client | yes |")));
}

TEST(ThroughputSection, HoldsTheDaemonAgainstAServerWithMappedMemoryByItself) {
  ordered_json made = throughput();
  EXPECT_THAT(aims_table({made}), Not(HasSubstr("mapped memory")));
  made["rows"][2]["hand_mapped"] = contender(300, 40, 1000);
  made["one_at_a_time"][0]["hand_mapped"] = contender(1, 44, 1000);
  EXPECT_THAT(aims_table({made}),
              HasSubstr("of the server by hand with mapped memory and a flag | ≥ 5 times | 3.0 times, tcp, 256 B, 32 "
                        "clients | no: [0024]"));
  EXPECT_THAT(
      aims_table({made}),
      HasSubstr("server by hand with mapped memory and a flag | ≤ 10 % longer | +25 %, tcp, 4 KiB, 1 client | no |"));
  EXPECT_THAT(aims_table({made}), HasSubstr("(the better of callback and polled) | ≥ 5 times | 6.0 times, "));
}

TEST(ThroughputSection, HoldsEachRowOfTheHostAgainstTheEcho) {
  ordered_json made = throughput();
  made["device"]["backend"] = "host";
  EXPECT_THAT(aims_table({made}),
              HasSubstr("of the raw echo | ≥ 70 % | 80 % (80–80), tcp, 256 B, 1 client; 5 of 5 rows | yes |"));
  made["rows"][1]["callback"] = contender(600, 60, 1000);
  EXPECT_THAT(aims_table({made}),
              HasSubstr("of the raw echo | ≥ 70 % | 60 % (60–60), tcp, 64 KiB, 1 client; 4 of 5 rows | no: [0025]"));
  made["rows"][1]["callback"]["of_limit"] = to_json({0.75, 0.5, 0.9});
  EXPECT_THAT(aims_table({made}),
              HasSubstr("| 75 % (50–90), tcp, 64 KiB, 1 client; by the medians 60 %, tcp, 64 KiB, 1 "
                        "client; 4 of 5 rows | no: [0025]"));
}

// What a row's contender did in each of three turns.
void turn_by_turn(ordered_json& contender, const char* figure, const std::vector<double>& values) {
  contender["turns"][figure] = values;
  contender[figure] = to_json(spread_of(values));
}

TEST(ThroughputSection, HoldsTheDaemonAgainstTheServerByHandTurnByTurn) {
  ordered_json made = throughput();
  turn_by_turn(made["rows"][2]["poll"], "requests_per_second", {600, 900, 1000});
  EXPECT_THAT(aims_table({made}), HasSubstr("| ≥ 5 times | 6.0 times, tcp, 256 B, 32 clients | yes |"))
      << "the server by hand has kept no turns";
  turn_by_turn(made["rows"][2]["hand"], "requests_per_second", {100, 200, 250});
  EXPECT_THAT(aims_table({made}), HasSubstr("(the better of callback and polled) | ≥ 5 times | 4.5 times (4.0–6.0), "
                                            "tcp, 256 B, 32 clients | no |"));
  made["rows"][2]["hand_mapped"] = contender(1, 40, 1000);
  turn_by_turn(made["rows"][2]["hand_mapped"], "requests_per_second", {300, 300, 200});
  EXPECT_THAT(aims_table({made}), HasSubstr("with mapped memory and a flag | ≥ 5 times | 3.0 times (2.0–5.0), tcp, "));
}

TEST(ThroughputSection, TellsTurnByTurnHowMuchLongerARequestTakes) {
  ordered_json made = throughput();
  ordered_json& row = made["one_at_a_time"][0];
  made["rows"][2]["hand_mapped"] = row["hand_callback"] = row["hand_mapped"] = contender(1, 50, 1000);
  turn_by_turn(row["callback"], "latency_p50_us", {50, 60, 90});
  turn_by_turn(row["poll"], "latency_p50_us", {42, 55, 80});
  for (const char* const by_hand : {"hand", "hand_callback", "hand_mapped"}) {
    turn_by_turn(row[by_hand], "latency_p50_us", {40, 50, 100});
  }
  const std::string text = aims_table({made});
  EXPECT_THAT(text, HasSubstr("by hand with stream callbacks | ≤ 10 % longer | +20 % (-10 to 25), tcp, 4 KiB, 1 client "
                              "| no |"));
  EXPECT_THAT(text, HasSubstr("(the better of callback and polled) | ≤ 10 % longer | +5 % (-20 to 10), tcp, 4 KiB, 1 "
                              "client | yes |"))
      << "the medians are 10 % apart";
  EXPECT_THAT(text, HasSubstr("mapped memory and a flag | ≤ 10 % longer | +5 % (-20 to 10), tcp, 4 KiB, 1 client |"));
}

TEST(ThroughputSection, HoldsTheDaemonAgainstTheWiderEchoTurnByTurn) {
  ordered_json made = throughput();
  made["rows"][2]["wide_echo"] = contender(2000, 60, 1000);
  turn_by_turn(made["rows"][2]["wide_echo"], "requests_per_second", {1000, 2000, 3000});
  turn_by_turn(made["rows"][2]["poll"], "requests_per_second", {600, 900, 900});
  EXPECT_THAT(aims_table({made}),
              HasSubstr("; of one with as many I/O threads 45 % (30–60), tcp, 256 B, 32 clients; with"));
}

TEST(ThroughputSection, ShowsTheModeThatChoosesWhereItTookPart) {
  EXPECT_THAT(tables_of(throughput()), Not(HasSubstr("auto")));
  ordered_json made = throughput();
  for (ordered_json& row : made["rows"]) {
    row["auto"] = contender(810, 44, 1000);
  }
  EXPECT_THAT(tables_of(made), HasSubstr("| daemon, auto |"));
}

TEST(ThroughputSection, CountsRecordsNotRequests) {
  EXPECT_THAT(tables_of(throughput()), HasSubstr("| tcp, 1 | 64 (64–64) | 51 (51–51) | 58 (58–58) |"));
}

TEST(ThroughputSection, DrawsAChartForEachTransportAndNumberOfClientsThatThereIs) {
  const std::vector<chart> charts = section_of(throughput()).charts(throughput());
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_EQ(charts[0].lines.size(), 4U);
  EXPECT_EQ(charts[1].title, "tcp, 32 clients");
  EXPECT_THAT(draw_charts(charts), HasSubstr("<svg"));
}

}  // namespace
}  // namespace penstock::bench
