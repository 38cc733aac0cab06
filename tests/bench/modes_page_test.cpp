// The section of `modes`: its figures and its verdict.

#include <string>

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

ordered_json row_of(std::size_t bytes, std::size_t in_flight) {
  ordered_json made = {{"bytes", bytes}, {"clients", 1}, {"in_flight", in_flight}};
  const char* const key = in_flight == 1 ? "latency_p50_us" : "requests_per_second";
  for (const char* const each : {"callback", "poll", "poll_again", "auto"}) {
    made[each] = {{key, of(2000)}};
  }
  made["auto_to_callback"] = to_json({1.2, 1.1, 1.3});
  made["auto_to_poll"] = to_json({1.0, 0.97, 1.02});
  made["poll_again_to_poll"] = to_json({0.9, 0.8, 1.05});
  return made;
}

ordered_json modes() {
  ordered_json made = result_of("modes");
  made["rows"] = {row_of(256, 256), row_of(256, 1), row_of(65536, 32)};
  return made;
}

TEST(ModesSection, HasATableOfResultsASecondAndOneOfSingleRequests) {
  const std::string text = tables_of(modes());
  EXPECT_THAT(text, HasSubstr("| 64 KiB, 1 client | 2.00 (2.00–2.00) | 2.00 (2.00–2.00) | 2.00 (2.00–2.00) | 2.00 "
                              "(2.00–2.00) | 1.20 (1.10–1.30) | 1.00 (0.97–1.02) | 0.90 (0.80–1.05) |"));
  EXPECT_THAT(text, HasSubstr("| 256 B, one at a time | 2000 (2000–2000) |"));
}

TEST(ModesSection, SaysNoWhereTheModeThatChoosesIsLessBeyondChance) {
  EXPECT_THAT(
      aims_table({modes()}),
      HasSubstr("| 0 of 6, the least 1.00 (0.97–1.02) times, 256 B, 1 client, beside poll; of another daemon that "
                "polls 0 of 3, the least 0.90 (0.80–1.05) times, 256 B, 1 client, beside poll | yes |"));
  ordered_json made = modes();
  made["rows"][2]["auto_to_poll"] = to_json({0.8, 0.5, 0.96});
  EXPECT_THAT(aims_table({made}),
              HasSubstr("| 0 of 6, the least 0.80 (0.50–0.96) times, 64 KiB, 1 client, beside poll;"));
  EXPECT_THAT(aims_table({made}), HasSubstr("| yes |")) << "it may be chance";
  made["rows"][2]["auto_to_callback"] = to_json({0.92, 0.91, 0.94});
  EXPECT_THAT(aims_table({made}), HasSubstr("| 1 of 6, the least 0.80"));
  EXPECT_THAT(aims_table({made}), HasSubstr("| no: [0018](decisions/0018-completion-by-itself.md) |"));
}

TEST(ModesSection, DrawsTheRatiosOfOneClient) {
  const std::vector<chart> charts = section_of(modes()).charts(modes());
  ASSERT_EQ(charts.size(), 2U);
  ASSERT_EQ(charts[0].lines.size(), 3U);
  EXPECT_EQ(charts[0].lines[0].x, (std::vector<double>{256, 65536}));
  EXPECT_EQ(charts[1].lines[1].y, (std::vector<double>{1.0}));
}

}  // namespace
}  // namespace penstock::bench
