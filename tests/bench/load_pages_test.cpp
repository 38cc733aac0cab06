// The sections of what puts load on a daemon: their figures, their verdicts and their drawings.

#include <initializer_list>
#include <set>
#include <string>
#include <utility>

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

ordered_json shared() {
  const auto row = [](std::size_t bytes, double of_limit) {
    const auto way = [](double share, double us) {
      return ordered_json{{"gb_per_second", of(40 * share)}, {"of_limit", of(share)}, {"alone_p50_us", of(us)}};
    };
    return ordered_json{{"bytes", bytes},
                        {"in_flight", 8},
                        {"limit_gb_per_second", of(40)},
                        {"shared", way(of_limit, 100)},
                        {"zmq", way(0.1, 250)}};
  };
  ordered_json made = result_of("shared");
  made["rows"] = {row(65536, 0.25), row(1U << 20U, 0.875), row(16U << 20U, 0.95)};
  return made;
}

TEST(SharedSection, HoldsTheWorstOfTheLargeFramesAgainstTheAim) {
  EXPECT_THAT(aims_table({shared()}), HasSubstr("| ≥ 90 % | 88 % (88–88), 1 MiB | no |"));
  EXPECT_THAT(tables_of(shared()), HasSubstr("| 64 KiB | 100 (100–100) | 250 (250–250) | -150 |"));
}

TEST(SharedSection, DrawsEachWay) {
  const std::vector<chart> charts = section_of(shared()).charts(shared());
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_EQ(charts[0].lines.size(), 3U);
  EXPECT_EQ(charts[1].lines.size(), 2U);
}

ordered_json latency() {
  ordered_json made = result_of("latency");
  made["bytes"] = 4096;
  made["clients"] = 8;
  made["capacity_per_second"] = 1000;
  const ordered_json parts = {{"p50", of(40)}, {"p90", of(50)}, {"p99", of(60)}, {"p999", of(70)}, {"max", of(80)}};
  made["rows"] = {{{"load", 0.5}, {"requests_per_second", 500}, {"echo", parts}, {"callback", parts}, {"poll", parts}}};
  made["idle"] = {{"echo", contender(1, 50, 1)},
                  {"callback", contender(1, 75, 1)},
                  {"poll", contender(1, 62, 1)},
                  {"bare_callback_us", of(20)},
                  {"bare_poll_us", of(5)}};
  return made;
}

TEST(LatencySection, TakesTheEchoAndTheBareBatchFromTheIdleDaemon) {
  const std::string text = tables_of(latency());
  EXPECT_THAT(text, HasSubstr("| 75.0 (75.0–75.0) | +5.0 |"));
  EXPECT_THAT(text, HasSubstr("| 62.0 (62.0–62.0) | +7.0 |"));
  EXPECT_THAT(aims_table({latency()}),
              HasSubstr("polled completion, beyond the raw round trip and one bare batch | ≤ 10 µs | 7.0 µs: 62.0 "
                        "(62.0–62.0) less 50.0 (50.0–50.0) and 5.0 (5.0–5.0) | yes |"));
}

TEST(LatencySection, TakesTheEchoAndTheBareBatchOfTheSameTurn) {
  ordered_json made = latency();
  ordered_json& idle = made["idle"];
  idle["echo"]["turns"]["latency_p50_us"] = {50, 40, 70};
  idle["poll"]["turns"]["latency_p50_us"] = {62, 58, 73};
  idle["callback"]["turns"]["latency_p50_us"] = {75, 90, 95};
  idle["bare_turns"] = {{"poll", {5, 6, 4}}, {"callback", {20, 20, 20}}};
  EXPECT_THAT(aims_table({made}),
              HasSubstr("| ≤ 10 µs | 7.0 µs (-1.0 to 12.0): 62.0 (62.0–62.0) less 50.0 (50.0–50.0) and "));
  idle["bare_turns"]["poll"] = {1, 1, 4};
  EXPECT_THAT(aims_table({made}), HasSubstr("| ≤ 10 µs | 11.0 µs (-1.0 to 17.0): 62.0 (62.0–62.0) less 50.0 "
                                            "(50.0–50.0) and 5.0 (5.0–5.0) | no: "));
}

TEST(LatencySection, HasARowForEachLoadAndContender) {
  EXPECT_THAT(tables_of(latency()), HasSubstr("| 50 % | 500 | daemon, poll | 40 (40–40) | 50 (50–50) |"));
  EXPECT_THAT(tables_of(latency()), Not(HasSubstr("auto")));
}

TEST(LatencySection, ShowsTheModeThatChoosesBesideAPolledBatch) {
  ordered_json made = latency();
  made["rows"][0]["auto"] = made["rows"][0]["poll"];
  made["idle"]["auto"] = contender(1, 63, 1);
  EXPECT_THAT(tables_of(made), HasSubstr("| 50 % | 500 | daemon, auto | 40 (40–40) |"));
  EXPECT_THAT(tables_of(made), HasSubstr("| auto | 50.0 (50.0–50.0) | 5.0 (5.0–5.0) | 63.0 (63.0–63.0) | +8.0 |"));
}

ordered_json operators() {
  ordered_json made = result_of("operators");
  const auto row = [](const char* name, const ordered_json& of_numpy) {
    return ordered_json{{"name", name}, {"frames", 64}, {"samples", 1024}, {"of_numpy", of_numpy}};
  };
  made["rows"] = {row("affine", of(3)), row("detect", to_json({1.05, 0.95, 1.25}))};
  return made;
}

TEST(OperatorsSection, NamesTheSlowestBesideNumpy) {
  ordered_json made = operators();
  EXPECT_THAT(aims_table({made}),
              HasSubstr("| ≥ 1 times | 1.05 times (0.95–1.25), detect, 64 × 1024; at most 3.0 times; "
                        "2 of 2 rows | yes |"));
  made["rows"][0]["of_numpy"] = to_json({0.99, 0.9, 1.1});
  EXPECT_THAT(aims_table({made}),
              HasSubstr("| 0.99 times (0.90–1.10), affine, 64 × 1024; at most 1.1 times; 1 of 2 rows "
                        "| no |"));
}

ordered_json counted_latency(std::uint64_t refused, std::uint64_t unanswered) {
  ordered_json made = latency();
  for (const char* const who : {"echo", "callback", "poll"}) {
    made["rows"][0][who].update({{"sent", 1000}, {"refused", 0}, {"unanswered", 0}});
  }
  made["rows"][0]["poll"].update({{"refused", refused}, {"unanswered", unanswered}});
  return made;
}

TEST(LatencySection, NamesTheRowsWhoseRequestsHadNoResult) {
  EXPECT_THAT(
      tables_of(counted_latency(12, 3)),
      HasSubstr("and are in no percentile: daemon, poll at 50 %, 12 refused and 3 without an answer of 1000.\n"));
  EXPECT_THAT(tables_of(counted_latency(0, 3)), HasSubstr("daemon, poll at 50 %, 0 refused and 3 without an answer"));
  EXPECT_THAT(tables_of(counted_latency(0, 0)), HasSubstr("\nAll 3000 requests had their result.\n"));
}

TEST(LatencySection, SaysNothingOfResultsThatWereNotCounted) {
  EXPECT_THAT(tables_of(latency()), Not(HasSubstr("had their result")));
  EXPECT_THAT(tables_of(latency()), Not(HasSubstr("no percentile")));
}

ordered_json growth_series(const char* name, const char* unit, bool grows, std::initializer_list<double> rates) {
  ordered_json made = {{"name", name}, {"unit", unit}, {"grows", grows}, {"rows", ordered_json::array()}};
  double x = 1;
  for (const double rate : rates) {
    made["rows"].push_back({{"x", x}, {"echo", contender(1000, 10, 1000)}, {"daemon", contender(rate, 20, 1000)}});
    x *= 4;
  }
  return made;
}

ordered_json growth() {
  ordered_json made = result_of("growth");
  made["small_bytes"] = 256;
  made["in_flight"] = 256;
  made["series"] = {growth_series("clients", "clients", false, {900, 900, 500}),
                    growth_series("frame size", "frame, bytes", true, {100, 100, 10})};
  return made;
}

TEST(GrowthSection, SaysWhereEachSeriesBends) {
  const std::string text = tables_of(growth());
  EXPECT_THAT(text, HasSubstr("The daemon bends at 16. The echo does not bend."));
  EXPECT_THAT(text, HasSubstr("The daemon bends at 16 B."));
}

TEST(GrowthSection, LooksAtSizesInBytesASecond) {
  const std::vector<chart> charts = section_of(growth()).charts(growth());
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_THAT(charts[0].lines.back().y, ::testing::ElementsAre(900, 900, 500));
  EXPECT_THAT(charts[1].lines.back().y, ::testing::ElementsAre(100, 400, 160));
}

ordered_json steady(bool flat) {
  ordered_json made = result_of("steady");
  const ordered_json verdict = {{"gain", 2}, {"margin", 1}, {"flat", flat}};
  made.update({{"minutes", 10},
               {"small_bytes", 4096},
               {"large_bytes", 262144},
               {"small_per_second", 1000},
               {"large_per_second", 10},
               {"resident_share", 0.01},
               {"resident_room_mib", 1},
               {"resident", verdict},
               {"pinned", verdict},
               {"files", verdict},
               {"seconds", {1, 2, 3}},
               {"resident_mib", {50, 52, 51}},
               {"pinned_mib", {0, 8, 8}},
               {"open_files", {40, 40, 40}}});
  return made;
}

TEST(SteadySection, SaysWhetherEachStaysAsItIs) {
  EXPECT_THAT(tables_of(steady(true)), HasSubstr("| resident memory, MiB | 50.0 | 52.0 | 51.0 | +2.00 | 1.00 | yes |"));
  EXPECT_THAT(tables_of(steady(false)), HasSubstr("**no**"));
  EXPECT_THAT(tables_of(steady(true)), Not(HasSubstr("**no**")));
}

TEST(SteadySection, TellsOfSharedMemoryWhereSomeTookPart) {
  EXPECT_THAT(tables_of(steady(true)), Not(HasSubstr("shared memory")));
  ordered_json made = steady(true);
  made.update({{"shared_per_second", 50}, {"visits", 599}});
  EXPECT_THAT(tables_of(made), HasSubstr("in shared memory too (50 results a second), and after each look"));
  EXPECT_THAT(tables_of(made), HasSubstr("before the next look: 599 times. After the first fifth"));
}

TEST(SteadySection, HoldsWhatWasCountedAgainstItsAim) {
  EXPECT_THAT(
      aims_table({steady(true)}),
      HasSubstr("| memory and open files at full load | flat for 10 minutes | 10 minutes: gained resident memory "
                "+2.00 MiB, pinned memory +2.00 MiB, open files +2.00 | yes |"));
  EXPECT_THAT(aims_table({steady(false)}), HasSubstr("open files +2.00 | no |"));
  ordered_json made = steady(true);
  made["minutes"] = 5;
  EXPECT_THAT(aims_table({made}), HasSubstr("open files +2.00 | no |"));
}

TEST(SteadySection, DoesNotCallFlatWhatWasNotCounted) {
  EXPECT_THAT(tables_of(steady(true)), HasSubstr("| pinned memory, MiB | 0.0 | 8.0 | 8.0 | +2.00 | 1.00 | yes |"));
  ordered_json made = steady(true);
  EXPECT_EQ(section_of(made).charts(made).at(0).lines.size(), 2U);
  made["pinned_mib"] = {0.0, 0.0, 0.0};
  EXPECT_THAT(tables_of(made), HasSubstr("| pinned memory, MiB | | | | | | not counted |"));
  EXPECT_EQ(section_of(made).charts(made).at(0).lines.size(), 1U);
  EXPECT_THAT(tables_of(made), HasSubstr("| device's memory, MiB | | | | | | not counted |"));
  made.update({{"device_memory", made.at("pinned")}, {"device_mib", {4, 4, 4}}});
  EXPECT_THAT(tables_of(made), HasSubstr("| device's memory, MiB | 4.0 | 4.0 | 4.0 | +2.00 | 1.00 | yes |"));
  EXPECT_EQ(section_of(made).charts(made).at(0).lines.size(), 2U);
}

ordered_json zmq() {
  ordered_json made = result_of("zmq");
  made["rows"] = ordered_json::array();
  for (const char* const transport : {"tcp", "ipc"}) {
    made["rows"].push_back({{"transport", transport},
                            {"bytes", 65536},
                            {"messages_per_second", of(10000)},
                            {"round_trip_p50_us", of(70)},
                            {"round_trip_p99_us", of(90)}});
  }
  return made;
}

TEST(ZmqSection, GivesBytesASecondToo) {
  EXPECT_THAT(tables_of(zmq()),
              HasSubstr("| ipc | 64 KiB | 10.0 (10.0–10.0) | 0.66 (0.66–0.66) | 70 (70–70) | 90 (90–90) |"));
}

ordered_json ring() {
  ordered_json made = result_of("ring");
  made.update({{"slots", 16},
               {"operations_a_repeat", 1000},
               {"rows", {{{"what", "claimed"}, {"ns", of(19)}}, {{"what", "pushed"}, {"ns", of(11)}}}},
               {"copies", {{{"bytes", 64}, {"ns", of(2)}}, {{"bytes", 4096}, {"ns", of(47)}}}}});
  return made;
}

TEST(RingSection, DrawsEachOperationAsALevelBesideTheCopies) {
  EXPECT_THAT(tables_of(ring()), HasSubstr("| claimed | 19.0 (19.0–19.0) |"));
  const std::vector<chart> charts = section_of(ring()).charts(ring());
  EXPECT_THAT(charts.at(0).lines.at(1).x, ::testing::ElementsAre(64, 4096));
  EXPECT_THAT(charts.at(0).lines.at(1).y, ::testing::ElementsAre(19, 19));
  EXPECT_THAT(charts.at(0).lines.at(2).x, ::testing::ElementsAre(64, 4096));
  EXPECT_THAT(charts.at(0).lines.at(2).y, ::testing::ElementsAre(11, 11));
}

TEST(Sections, CanAllBeDrawn) {
  for (const ordered_json& each : {shared(), latency(), growth(), steady(true), zmq(), ring()}) {
    EXPECT_THAT(draw_charts(section_of(each).charts(each)), HasSubstr("<svg")) << each.at("benchmark");
  }
}

TEST(Sections, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const section& each : sections()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
  }
}

}  // namespace
}  // namespace penstock::bench
