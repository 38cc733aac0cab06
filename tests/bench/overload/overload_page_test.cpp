#include "tests/bench/overload/overload_page.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"
#include "tests/bench/made_up_result.hpp"
#include "tests/bench/page.hpp"
#include "tests/bench/sections.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

// As runs were when there was one case.
ordered_json overload() {
  ordered_json made = result_of("overload");
  made["clients"] = 4;
  made["capacity_per_second"] = 1000;
  made["times_capacity"] = 2;
  made["seconds"] = 10;
  made["rows"] = {{{"sent", 100},
                   {"results", 60},
                   {"refusals", {{"NO_CREDIT", 30}, {"EXPIRED", 7}}},
                   {"unanswered", 3},
                   {"resident_growth", 1.01},
                   {"normal_us", 100},
                   {"overloaded_us", 2000},
                   {"recovery_s", -1},
                   {"memory_s", {0, 1}},
                   {"resident_mib", {50, 51}}}};
  return made;
}

TEST(OverloadSection, CountsRefusalsByKindAndWhatHadNoAnswer) {
  EXPECT_THAT(tables_of(overload()), HasSubstr("| 100 | 60 | 30 NO_CREDIT, 7 EXPIRED | 3 | 51 | 1.010 |"));
}

TEST(OverloadSection, SaysWhenNoRecoveryWasSeen) {
  EXPECT_THAT(tables_of(overload()), HasSubstr("| not seen |"));
}

ordered_json overload_row(double sent, double growth, double recovery_s) {
  ordered_json made = overload().at("rows").at(0);
  made.update({{"sent", sent},
               {"refusals", {{"OVERFLOW", 7}}},
               {"unanswered", 0},
               {"dropped", 7},
               {"told", 7},
               {"first_half_mib", 50},
               {"margin_mib", 5},
               {"resident_growth", growth},
               {"recovery_s", recovery_s},
               {"drained_s", 0.5}});
  return made;
}

ordered_json overload_case(const char* name, const std::vector<ordered_json>& rows) {
  return {{"name", name}, {"bytes", 256}, {"clients", 4}, {"credits", 256}, {"capacity_per_second", 1000},
          {"rows", rows}};
}

ordered_json overload_of(const std::vector<ordered_json>& cases, const std::vector<std::string>& failures = {}) {
  ordered_json made = result_of("overload");
  made.update({{"times_capacity", 2}, {"seconds", 10}, {"cases", cases}, {"failures", failures}});
  return made;
}

TEST(OverloadSection, SaysWhatWasReallyOfferedAndOfWhichDropsClientsWereTold) {
  const std::string text = tables_of(overload_of({overload_case("messages", {overload_row(13000, 1.08, 0.02)}),
                                                  overload_case("drop-oldest", {overload_row(20000, 1, 0.03)})}));
  EXPECT_THAT(text, HasSubstr("Requests of 256 B, 256 credits for a client. The daemon can do 1000 a second."));
  EXPECT_THAT(text, HasSubstr("\n| 1.30 | 13000 | 60 | 7 OVERFLOW | 0 | 51 | 1.080 | 1.100 | 7 of 7 | 100 | 2.0 | 20 | "
                              "500 |\n"));
  EXPECT_THAT(text, HasSubstr("\n| 2.00 | 20000 |"));
}

TEST(OverloadSection, NamesWhatDoesNotHold) {
  const std::vector<ordered_json> cases{overload_case("compute", {overload_row(20000, 1, 0.03)})};
  EXPECT_THAT(tables_of(overload_of(cases, {"compute, repeat 1: why"})),
              HasSubstr("What does not hold:\n\n- compute, repeat 1: why\n"));
  EXPECT_THAT(tables_of(overload_of(cases)), Not(HasSubstr("does not hold")));
}

TEST(OverloadSection, HasThreeAimsOfAllRunsThatWereOverloaded) {
  const std::string text =
      aims_table({overload_of({overload_case("compute", {overload_row(20000, 1, 0.03), overload_row(20000, 1.1, 0.1)}),
                               overload_case("messages", {overload_row(9000, 2, -1)})})});
  EXPECT_THAT(text, HasSubstr("| overload: requests without an answer | none | 0 of 40000, in the 2 of 3 runs that had "
                              "more than the capacity: compute 2.00 times (2.00–2.00), messages 0.90 times (0.90–0.90) "
                              "| yes |"));
  EXPECT_THAT(text, HasSubstr("| 1.100 times at most; within in 2 of 2 | yes |"));
  EXPECT_THAT(text, HasSubstr("| in every run | in 2 of 2, after 100 ms at most | yes |"));
}

TEST(OverloadSection, MissesAnAimWhereOneRunDoes) {
  ordered_json grown = overload_row(20000, 1.101, -1);
  grown["unanswered"] = 1;
  const std::string text = aims_table({overload_of({overload_case("compute", {overload_row(20000, 1, 0.03), grown})})});
  EXPECT_THAT(text, HasSubstr("| 1 of 40000, in the 2 of 2 runs that had more than the capacity: compute 2.00 times "
                              "(2.00–2.00) | no |"));
  EXPECT_THAT(text, HasSubstr("| 1.101 times at most; within in 1 of 2 | no |"));
  EXPECT_THAT(text, HasSubstr("| in 1 of 2, after 30 ms at most | no |"));
}

TEST(OverloadSection, ClaimsNothingWhereTheLoadCouldNotOfferEnough) {
  EXPECT_THAT(aims_table({overload_of({overload_case("messages", {overload_row(10000, 1, 0.03)})})}),
              HasSubstr("| always | not measured | no |"));
}

TEST(OverloadSection, JudgesRunsFromBeforeTheMarginByOnePercent) {
  ordered_json made = overload();
  made["capacity_per_second"] = 5;
  EXPECT_THAT(aims_table({made}), HasSubstr("| 1.010 times at most; within in 1 of 1 | yes |"));
  EXPECT_THAT(aims_table({made}), HasSubstr("| 3 of 100, in the 1 of 1 runs that had more than the capacity: compute "
                                            "2.00 times (2.00–2.00) | no |"));
  made["rows"][0]["resident_growth"] = 1.011;
  EXPECT_THAT(aims_table({made}), HasSubstr("| 1.011 times at most; within in 0 of 1 | no |"));
}

TEST(OverloadSection, DrawsEachCase) {
  const ordered_json made = overload_of({overload_case("compute", {overload_row(20000, 1, 0), overload_row(1, 1, 0)}),
                                         overload_case("messages", {overload_row(20000, 1, 0)})});
  const std::vector<chart> charts = section_of(made).charts(made);
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_EQ(charts[0].title, "The daemon's memory: compute");
  EXPECT_EQ(charts[0].lines.size(), 2U);
  EXPECT_EQ(charts[1].lines.size(), 1U);
}

TEST(OverloadSection, CanBeDrawn) {
  for (const ordered_json& each : {overload(), overload_of({overload_case("compute", {overload_row(1, 1, 0)})})}) {
    EXPECT_THAT(draw_charts(section_of(each).charts(each)), HasSubstr("<svg"));
  }
}

}  // namespace
}  // namespace penstock::bench
