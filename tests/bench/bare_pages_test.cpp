// The pages of the bare CUDA benchmarks: every way has its figures in a table and its line in a chart.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/completion/completion_page.hpp"
#include "tests/bench/isolation/isolation_page.hpp"
#include "tests/bench/link/link_page.hpp"
#include "tests/bench/sample_result.hpp"
#include "tests/bench/sections.hpp"
#include "tests/bench/submit/submit_page.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

ordered_json head(const char* kind) {
  return bench::head(kind, {{"backend", "cuda"}, {"name", "A GPU"}, {"detail", "driver"}});
}

ordered_json link() {
  ordered_json made = head("link");
  made["register_bytes"] = 256U << 20U;
  made["register_ms"] = 17.25;
  made["register_huge_ms"] = 3.5;
  const auto way = [](double rate) {
    return ordered_json{{"in", of(rate)}, {"out", of(rate)}, {"both", of(rate)}, {"fill", of(rate / 4)}};
  };
  made["rows"] = {{{"bytes", 4096}, {"ways", {{"pinned", way(2)}, {"pageable", way(1.5)}}}},
                  {{"bytes", 1048576}, {"ways", {{"pinned", way(50)}, {"pageable", way(15)}}}}};
  made["pieces"] = {{{"pieces", 64},
                     {"piece_bytes", 4096},
                     {"in", {{"a copy each", of(100)}, {"kernel", of(8)}}},
                     {"out", {{"a copy each", of(90)}}}}};
  return made;
}

ordered_json completion() {
  ordered_json made = head("completion");
  made["streams"] = 8;
  const auto way = [](double time) {
    return ordered_json{{"latency_p50_us", of(time)},
                        {"latency_p99_us", of(time + 10)},
                        {"latency_cpu_us", of(time + 1)},
                        {"batches_per_second", of(1e6 / time)},
                        {"rate_cpu_us", of(time / 2)}};
  };
  made["rows"] = {{{"bytes", 256}, {"ways", {{"stream callback", way(50)}, {"event polled", way(18)}}}},
                  {{"bytes", 65536}, {"ways", {{"stream callback", way(63)}, {"event polled", way(27)}}}}};
  return made;
}

ordered_json isolation() {
  ordered_json made = head("isolation");
  made["streams"] = 7;
  made["bytes"] = 4096;
  made["pace_us"] = 200;
  made["hold_period_ms"] = 10;
  made["rows"] = ordered_json::array();
  for (const char* held_by : {"stream callback", "host function"}) {
    for (const double held_ms : {0.0, 5.0}) {
      for (const char* observer : {"stream callback", "event polled"}) {
        made["rows"].push_back({{"observer", observer},
                                {"held_by", held_by},
                                {"held_ms", held_ms},
                                {"p50_us", of(50)},
                                {"p99_us", of(60 + 1000 * held_ms)},
                                {"most_us", of(5100)},
                                {"late", of(0.4)},
                                {"submit_most_us", of(30)}});
      }
    }
  }
  return made;
}

ordered_json submit() {
  ordered_json made = head("submit");
  made["streams"] = 8;
  made["bytes"] = 4096;
  const auto way = [](double time) { return ordered_json{{"wall_us", of(time)}, {"cpu_us", of(time)}}; };
  made["rows"] = {{{"kernels", 1}, {"ways", {{"event", way(5)}, {"graph, event", way(3.5)}}}},
                  {{"kernels", 8}, {"ways", {{"event", way(19)}, {"graph, event", way(5)}}}}};
  made["pieces"] = {{{"pieces", 64}, {"piece_bytes", 256}, {"ways", {{"a copy each", way(99)}}}}};
  made["hand_over"] = {{{"way", "by a thread that spins"},
                        {"cpu_us", of(2)},
                        {"until_done_us", of(21)},
                        {"batches_per_second", of(9e4)}}};
  return made;
}

TEST(BarePages, EachHasASectionWithTablesAndCharts) {
  for (const ordered_json& result : {link(), completion(), isolation(), submit()}) {
    const section& shown = section_of(result);
    EXPECT_THAT(shown.tables(result), AllOf(HasSubstr("A GPU"), HasSubstr("Median of 5")));
    const std::vector<chart> charts = shown.charts(result);
    ASSERT_FALSE(charts.empty());
    for (const chart& each : charts) {
      EXPECT_FALSE(each.lines.front().x.empty()) << each.title;
    }
  }
}

TEST(BarePages, LinkTellsWhatGroupsOfPiecesReach) {
  EXPECT_THAT(link_tables(link()), AllOf(HasSubstr("| 1 MiB | 50.0 (49.0–51.0) | 15.0 (14.0–16.0) |"),
                                         HasSubstr("| a copy each | 100.0 (99.0–101.0), 2.6 GB/s |"),
                                         HasSubstr("256 MiB of a sealed memfd took 17.2 ms, of huge pages 3.5 ms.")));
}

TEST(BarePages, LinkDrawsEachDirection) {
  EXPECT_EQ(link_charts(link()).size(), 4U);
}

TEST(BarePages, LinkLeavesOutWhatWasNotMeasured) {
  ordered_json before = link();
  before.erase("register_huge_ms");
  for (ordered_json& row : before["rows"]) {
    for (auto& [name, way] : row["ways"].items()) {
      way.erase("fill");
    }
  }
  EXPECT_EQ(link_charts(before).size(), 3U);
  EXPECT_THAT(link_tables(before), AllOf(HasSubstr("took 17.2 ms."), ::testing::Not(HasSubstr("memcpy"))));
}

TEST(BarePages, CompletionHasARowForEachWayAndAColumnForEachPayload) {
  EXPECT_THAT(completion_tables(completion()),
              AllOf(HasSubstr("| | 256 B | 64 KiB |"), HasSubstr("| event polled | 18.0 (17.0–19.0) | 27.0 "
                                                                 "(26.0–28.0) |")));
}

TEST(BarePages, IsolationDrawsALineForEachObserverBesideEachHolder) {
  const std::vector<chart> charts = isolation_charts(isolation());
  ASSERT_EQ(charts.size(), 2U);
  const auto& lines = charts.front().lines;
  const auto polled =
      std::find_if(lines.begin(), lines.end(), [](const auto& each) { return each.name == "event polled"; });
  ASSERT_NE(polled, lines.end());
  EXPECT_THAT(polled->x, ::testing::ElementsAre(0, 5));
  EXPECT_THAT(polled->y, ::testing::ElementsAre(60, 5060));
}

TEST(BarePages, IsolationSaysWhereNothingIsHeld) {
  EXPECT_THAT(isolation_tables(isolation()),
              AllOf(HasSubstr("| nothing | 0 ms | event polled |"), HasSubstr("| host function | 5 ms |")));
}

TEST(BarePages, SubmitHasAColumnForEachNumberOfKernels) {
  EXPECT_THAT(submit_tables(submit()),
              AllOf(HasSubstr("| | 1 kernel | 8 kernels |"), HasSubstr("| graph, event | 3.50 (2.50–4.50) | 5.00"),
                    HasSubstr("| | 64 × 256 B |")));
}

TEST(BarePages, SubmitTellsWhatAThreadOfItsOwnCosts) {
  EXPECT_THAT(submit_tables(submit()),
              HasSubstr("| by a thread that spins | 2.00 (1.00–3.00) | 21.0 (20.0–22.0) | 90.0 (90.0–90.0) |"));
}

}  // namespace
}  // namespace penstock::bench
