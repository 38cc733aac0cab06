// The page that is made of the figures: every benchmark has its section, its numbers and its verdict.

#include "tests/bench/page.hpp"

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/sample_result.hpp"
#include "tests/bench/sections.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

ordered_json head(const char* kind) {
  return bench::head(kind, {{"backend", "host"}, {"name", "A Device"}, {"detail", "2 threads"}});
}

ordered_json timing() {
  ordered_json made = head("timing");
  made["in_flight"] = 64;
  made["bytes"] = 256;
  made["rows"] = {{{"timing", "off"}, {"batches_per_second", 0}, {"requests_per_second", of(200000)}, {"ratio", of(1)}},
                  {{"timing", "default"},
                   {"batches_per_second", 500},
                   {"requests_per_second", of(199000)},
                   {"ratio", to_json({0.995, 0.99, 1})}}};
  return made;
}

ordered_json overlap(bool bare_cuda) {
  ordered_json made = head("overlap");
  made["bytes"] = 64U << 20U;
  made["taps"] = 700;
  made["streams"] = 8;
  made["bare_cuda"] = bare_cuda;
  made["stages_us"] = {{"copy_in", 1200.0}, {"compute", 1201.0}, {"copy_out", 1202.0}};
  const auto way = [](double share) {
    return ordered_json{{"ms", of(3)}, {"speedup", of(2)}, {"of_bare", to_json({share, share, share})}};
  };
  made["rows"] = {{{"chunks", 8},
                   {"model", 2.4},
                   {"bare", way(1)},
                   {"callback", way(0.93)},
                   {"poll", way(0.97)},
                   {"wire", way(0.2)}}};
  made["timeline"] = {{{"stream", 0}, {"what", "compute"}, {"begin_us", 0.0}, {"end_us", 5.0}}};
  return made;
}

// JSON files for the time of a test.
class Page : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const char* name, const std::string& text) {
    const std::string file = (folder_ / name).string();
    std::ofstream(file) << text;
    files_.push_back(file);
    return file;
  }

  std::vector<std::string> files_;

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("penstock-page-" + std::to_string(::getpid()));
};

TEST_F(Page, HasASectionForEachFileInTheOrderOfTheBenchmarks) {
  write("a.json", timing().dump());
  write("b.json", overlap(true).dump());
  const std::string page = page_of(files_);
  EXPECT_THAT(page, HasSubstr("# Benchmarks"));
  const std::size_t first = page.find("## Overlap: A Device");
  const std::size_t second = page.find("## The cost of timing: A Device");
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(second, std::string::npos);
  EXPECT_LT(first, second);
}

TEST_F(Page, ShowsTheDrawingThatIsNamedAsTheFile) {
  write("overlap-cuda.json", overlap(true).dump());
  EXPECT_THAT(page_of(files_), HasSubstr("](benchmarks/overlap-cuda.svg)"));
  EXPECT_THAT(page_of(files_), HasSubstr("](benchmarks/overlap-cuda-timeline.svg)"));
}

TEST_F(Page, NamesWhatMeasuredNoDeviceAfterTheProcessor) {
  ordered_json made = timing();
  made["device"] = {{"backend", "no"}, {"name", "this machine"}, {"detail", "no device takes part"}};
  EXPECT_THAT(page_of({write("no.json", made.dump())}), HasSubstr("## The cost of timing: A Processor\n"));
}

TEST_F(Page, RefusesAFileThatIsMissingOrOfSomethingElse) {
  EXPECT_THROW((void)page_of({"/nonexistent/figures.json"}), std::runtime_error);
  write("other.json", head("something").dump());
  EXPECT_THROW((void)page_of(files_), std::runtime_error);
  EXPECT_THROW((void)page_of({write("broken.json", "{")}), std::exception);
}

TEST_F(Page, BeginsWithWhatWasReachedAndWhatWasNotMeasured) {
  ordered_json on_a_gpu = timing();
  on_a_gpu["device"]["backend"] = "cuda";
  write("timing-cuda.json", on_a_gpu.dump());
  EXPECT_THAT(page_of(files_), HasSubstr("| < 1 % | 0.5 % (0.0 to 1.0) | yes | timing, A Device |\n"));
  EXPECT_THAT(page_of(files_), HasSubstr("\n\nNot measured yet: `shared` (cuda)"));
  EXPECT_THAT(page_of(files_), Not(HasSubstr("`timing` (cuda)")));
}

TEST(FactsLine, SaysWhereRepeatsWereShort) {
  ordered_json result = overlap(true);
  EXPECT_THAT(tables_of(result), HasSubstr(" interleaved repeats (least–most)"));
  EXPECT_THAT(tables_of(result), Not(HasSubstr("short interleaved repeats")));
  result["quick"] = true;
  EXPECT_THAT(tables_of(result), HasSubstr("short interleaved repeats (least–most)"));
  result["turn_ms"] = 200;
  EXPECT_THAT(tables_of(result), HasSubstr("short interleaved repeats, in turns of 200 ms (least–most)"));
}

TEST(FactsLine, TellsOfMemoryAndCommitWhereTheyAreKnown) {
  ordered_json result = overlap(true);
  EXPECT_THAT(tables_of(result), HasSubstr("A Processor, 2 cores, kernel 6, libzmq 4.3.4, 2026-01-02. Median"));
  result["machine"].update({{"memory_gib", 7.8}, {"commit", "0123456789-dirty"}});
  EXPECT_THAT(tables_of(result), HasSubstr("A Processor, 2 cores, 7.8 GiB, kernel 6, libzmq 4.3.4, commit "
                                           "0123456789-dirty, 2026-01-02. Median"));
}

TEST(FactsLine, TellsOfTheDriverWhereAGpuWasUsed) {
  ordered_json result = overlap(true);
  result["machine"]["nvidia_driver"] = "580.82.07";
  EXPECT_THAT(tables_of(result), HasSubstr("Device: host backend, A Device (2 threads)."));
  result["device"]["backend"] = "cuda";
  EXPECT_THAT(tables_of(result), HasSubstr("Device: cuda backend, A Device (driver 580.82.07, 2 threads)."));
}

TEST(OverlapSection, NamesTheLowestShareOfEachMode) {
  ordered_json result = overlap(true);
  result["device"]["backend"] = "cuda";
  ordered_json slower = result["rows"][0];
  slower["chunks"] = 16;
  slower["callback"]["of_bare"] = to_json({0.81, 0.8, 0.9});
  result["rows"].push_back(slower);
  const std::string text = aims_table({result});
  EXPECT_THAT(
      text,
      HasSubstr(
          "polled completion, of bare CUDA's speedup with the same chunks | ≥ 95 % | 97 % (97–97), 8 chunks | yes |"));
  EXPECT_THAT(text, HasSubstr("stream callbacks, of bare CUDA's speedup with the same chunks | ≥ 95 % | 81 % (80–90), "
                              "16 chunks | no: [0018]"));
}

TEST(OverlapSection, HoldsCallbacksAgainstBareCudaWithCallbacksToo) {
  ordered_json result = overlap(true);
  result["device"]["backend"] = "cuda";
  result["rows"][0]["told"] = result["rows"][0]["bare"];
  result["rows"][0]["callback"]["of_told"] = to_json({0.99, 0.98, 1});
  EXPECT_THAT(tables_of(result), HasSubstr("| 93 % | 99 % | 97 % | 20 % |"));
  EXPECT_THAT(aims_table({result}), HasSubstr("stream callbacks, of bare CUDA's speedup with stream callbacks with the "
                                              "same chunks | ≥ 95 % | 99 % (98–100), 8 chunks | yes |"));
}

TEST(OverlapSection, SaysWhenThereWasNoBareCuda) {
  EXPECT_THAT(tables_of(overlap(false)), HasSubstr("ran without it"));
  EXPECT_THAT(tables_of(overlap(true)), Not(HasSubstr("ran without it")));
}

TEST(TimingSection, ShowsEachRowWithItsRatio) {
  const std::string text = tables_of(timing());
  EXPECT_THAT(text, HasSubstr("| default | 500 | 199.0 (199.0–199.0) | 0.995 (0.990–1.000) |"));
  EXPECT_THAT(text, HasSubstr("A Processor, 2 cores"));
}

// Of 50 ms a scrape takes 1 ms; of a second the reading of a timeline takes 120 ms.
ordered_json asked() {
  ordered_json made = timing();
  const auto question = [](int turn_ms, std::size_t bytes, double ratio) {
    return ordered_json{{"turn_ms", turn_ms},
                        {"bytes", bytes},
                        {"took_ms", of(3)},
                        {"requests_per_second", of(196000)},
                        {"ratio", to_json({ratio, ratio - 0.02, ratio + 0.04})}};
  };
  made["metrics"] = question(50, 20480, 0.98);
  made["timeline_read"] = question(1000, 3U << 20U, 0.88);
  made["timeline_kept"] = {
      {"requests_a_batch", of(40)}, {"ns_a_batch", of(600)}, {"share", to_json({0.004, 0.003, 0.006})}};
  return made;
}

TEST(TimingSection, SaysWhatAQuestionCostsAndHowMuchThatIsOfTheThroughput) {
  const std::string text = tables_of(asked());
  EXPECT_THAT(text, HasSubstr("| `/metrics` | 20 KiB | 3.0 (2.0–4.0) | 196.0 (196.0–196.0) | 0.980 (0.960–1.020) | "
                              "1.00 (-1.00–2.00) | 0.10 % (-0.10 to 0.20), once a second |"));
  EXPECT_THAT(text, HasSubstr("| 120.00 (80.00–140.00) | 0.20 % (0.13 to 0.23), once a minute |"));
  EXPECT_THAT(text,
              HasSubstr("600 (599–601) ns for a batch of 40 (39–41) requests, which at the daemon's pace is 0.40 % "
                        "(0.30 to 0.60) of its shard's thread."));
}

TEST(TimingSection, HoldsMetricsAndTheTimelineAgainstTheirAims) {
  const std::string text = aims_table({asked()});
  EXPECT_THAT(text, HasSubstr("| cost of metrics, scraped once a second | < 1 % | 0.10 % (-0.10 to 0.20) | yes |"));
  EXPECT_THAT(text, HasSubstr("| cost of the timeline, kept always and read once a minute | < 1 % | 0.60 % (0.43 to "
                              "0.83); 0.40 % of it to keep it, computed | yes |"));
  EXPECT_THAT(
      text, HasSubstr("| cost of event timing, metrics and timeline, added up | < 1 % | 1.20 % (0.33 to 2.03) | no |"));
  EXPECT_THAT(text, Not(HasSubstr("not measured")));
}

TEST(TimingSection, MissesTheAimsOfWhatCostsMore) {
  ordered_json made = asked();
  made["metrics"]["ratio"] = of(0.79);
  made["timeline_kept"]["share"] = of(0.008);
  const std::string text = aims_table({made});
  EXPECT_THAT(text, ContainsRegex("cost of metrics, scraped once a second \\| < 1 % \\| 1.05 % [^|]*\\| no \\|"));
  EXPECT_THAT(text, ContainsRegex("cost of the timeline, kept [^|]*\\| < 1 % \\| 1.00 % [^|]*\\| no \\|"));
}

TEST(TimingSection, DrawsWhatIsTimedAlone) {
  const std::vector<chart> charts = section_of(asked()).charts(asked());
  ASSERT_EQ(charts.size(), 1U);
  EXPECT_THAT(charts[0].lines.at(0).x, ::testing::ElementsAre(500));
}

TEST(TimingSection, ClaimsNothingOfWhatItDoesNotTurnOff) {
  const std::string text = aims_table({timing()});
  EXPECT_THAT(text, HasSubstr("| cost of event timing alone, as many batches a second as by default | < 1 % | 0.5 %"));
  EXPECT_THAT(text,
              HasSubstr("| cost of metrics and of the timeline | < 1 % | not measured | no | timing, A Device |"));
}

ordered_json devices(std::initializer_list<std::pair<int, double>> ratios) {
  ordered_json made = bench::head("devices", {{"backend", "cuda"}, {"name", "A Device"}, {"detail", "driver"}});
  made["rows"] = ordered_json::array();
  for (const auto& [count, ratio] : ratios) {
    made["rows"].push_back({{"devices", count}, {"ratio", to_json({ratio, ratio - 0.1, ratio + 0.1})}});
  }
  return made;
}

TEST(DevicesSection, HasARowForEachAimWhetherItWasMeasuredOrNot) {
  const std::string two = aims_table({devices({{1, 1}, {2, 1.95}})});
  EXPECT_THAT(two, HasSubstr("| 2 devices, compute-bound, of one | ≥ 1.9 times | 1.95 times (1.85–2.05) | yes |"));
  EXPECT_THAT(
      two,
      HasSubstr("| 4 devices, compute-bound, of one | ≥ 3.7 times | not measured: the machine had 2 | no | devices, "));
  const std::string four = aims_table({devices({{1, 1}, {2, 1.85}, {4, 3.75}})});
  EXPECT_THAT(four, HasSubstr("| 2 devices, compute-bound, of one | ≥ 1.9 times | 1.85 times (1.75–1.95) | no |"));
  EXPECT_THAT(four, HasSubstr("| 4 devices, compute-bound, of one | ≥ 3.7 times | 3.75 times (3.65–3.85) | yes |"));
}

TEST(PageText, GivesBytesInTheLargestUnitBelow) {
  EXPECT_EQ(bytes_text(256), "256 B");
  EXPECT_EQ(bytes_text(65536), "64 KiB");
  EXPECT_EQ(bytes_text(1U << 20U), "1 MiB");
}

TEST(PageText, ScalesASpread) {
  EXPECT_EQ(spread_text(to_json({1500, 1250, 2000}), 1e-3, 2), "1.50 (1.25–2.00)");
}

TEST(PageText, NamesTheUnitOfAFigureOnce) {
  EXPECT_EQ(figure_text(to_json({0.8, 0.756, 0.921}), "%", 100), "80 % (76–92)");
}

}  // namespace
}  // namespace penstock::bench
