// The page of the operators: what stands beside them on a GPU, and runs from before there was so much.

#include "tests/bench/operators/operators_page.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/sample_result.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

ordered_json row(const char* name, int frames, int samples) {
  return {{"name", name}, {"frames", frames}, {"samples", samples}, {"bytes_per_second", of(2e9)}};
}

ordered_json earlier() {
  ordered_json made = head("operators", {{"backend", "cuda"}, {"name", "A GPU"}, {"detail", "driver"}});
  made["rows"] = {row("add", 64, 1024), row("power_spectrum, f32", 1, 1 << 20)};
  made["rows"][0]["of_copy"] = of(3);
  made["rows"][1]["of_cufft"] = of(4);
  return made;
}

ordered_json measured() {
  ordered_json made = earlier();
  made["cache_bytes"] = 50U << 20U;
  made["cublas_version"] = 130000;
  made["cufft_version"] = 12000;
  made["launch_seconds"] = to_json({5e-6, 4e-6, 6e-6});
  for (ordered_json& each : made["rows"]) {
    each["seconds"] = to_json({7e-6, 6.5e-6, 8e-6});
  }
  made["rows"][0]["of_cublas"] = of(5);
  made["rows"][0]["called"]["of_cublas"] = "cublasSgeam";
  made["rows"][1]["of_cufft_passes"] = of(6);
  made["rows"][1]["called"] = {{"of_cufft", "cufftExecR2C"}, {"of_cufft_passes", "passes"}};
  for (const int frames : {21504, 20480}) {
    made["rows"].push_back(row("add", frames, 1024));
    made["rows"].back()["of_memory"] = of(9);
  }
  return made;
}

std::vector<std::string> lines_of(const std::vector<chart>& charts, const char* title) {
  const auto found = std::find_if(charts.begin(), charts.end(), [&](const chart& each) { return each.title == title; });
  std::vector<std::string> names;
  for (const chart_line& each : found == charts.end() ? std::vector<chart_line>{} : found->lines) {
    names.push_back(each.name);
  }
  return names;
}

TEST(OperatorsPage, HasAColumnForEachComparison) {
  EXPECT_THAT(operators_tables(measured()),
              AllOf(HasSubstr("| | operator | batch | GB/s | µs | of bare cuBLAS | of bare cuFFT | of cuFFT between "
                              "passes | of a copy | of the memory's bandwidth | called bare |\n"
                              "|---|---|---|---|---|---|---|---|---|---|---|\n"),
                    HasSubstr("| 7.0 (6.5–8.0) | 5.00 (4.00–6.00) | | | 3.00 (2.00–4.00) | | cublasSgeam |\n"),
                    HasSubstr("| | 4.00 (3.00–5.00) | 6.00 (5.00–7.00) | | | cufftExecR2C; passes |\n"),
                    HasSubstr("| 3 | add | 21504 × 1024 | 2.00 (2.00–2.00) | | | | | | 9.00 (8.00–10.00) | |\n")));
}

TEST(OperatorsPage, DrawsAChartForEachComparison) {
  const std::vector<chart> charts = operators_charts(measured());
  for (const char* const column :
       {"of bare cuBLAS", "of bare cuFFT", "of cuFFT between passes", "of a copy", "of the memory's bandwidth"}) {
    EXPECT_THAT(charts, Contains(Field(&chart::y_label, column)));
  }
}

TEST(OperatorsPage, DrawsBatchesBeyondTheCacheAsOneLine) {
  EXPECT_THAT(lines_of(operators_charts(measured()), "Share of the memory's bandwidth"),
              ElementsAre("beyond the cache"));
}

TEST(OperatorsPage, TellsWhatTheColumnsOfAGpuMean) {
  EXPECT_THAT(operators_tables(measured()),
              AllOf(HasSubstr("does nothing takes 5.0 µs (4.0–6.0)"), HasSubstr("second-level cache of 50 MiB"),
                    HasSubstr("cuBLAS 130000; cuFFT 12000")));
}

TEST(OperatorsPage, SaysWhereALibraryIsNotThere) {
  ordered_json made = measured();
  made["cublas_version"] = 0;
  EXPECT_THAT(operators_tables(made), HasSubstr("cuBLAS was not found, so nothing is measured beside it; cuFFT 12000"));
}

TEST(OperatorsPage, SaysWhichCallCameToNothing) {
  ordered_json made = measured();
  made["rows"][0]["not_measured"] = {"cublasSgeam: another result, by 1.0e+00 of the largest"};
  EXPECT_THAT(operators_tables(made), HasSubstr("not measured: cublasSgeam: another result, by 1.0e+00"));
}

TEST(OperatorsPage, ShowsRunsFromBeforeWithoutEmptyColumns) {
  EXPECT_THAT(operators_tables(earlier()),
              AllOf(HasSubstr("| | operator | batch | GB/s | of bare cuFFT | of a copy |\n|---|---|---|---|---|---|\n"
                              "| 1 | add | 64 × 1024 | 2.00 (2.00–2.00) | | 3.00 (2.00–4.00) |\n"),
                    Not(HasSubstr("cuBLAS")), Not(HasSubstr("beyond"))));
  EXPECT_EQ(operators_charts(earlier()).size(), 2U);
}

}  // namespace
}  // namespace penstock::bench
