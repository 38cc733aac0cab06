#include "client/cli/top_layout.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

top_figures busy_daemon(std::uint32_t shards, std::uint32_t streams, std::size_t pipelines, std::size_t clients) {
  top_figures made;
  made.interval_s = 1;
  made.server = "penstockd 0.1.0";
  made.state = "ready";
  made.device = "NVIDIA H200 (cuda, driver for CUDA 13.0, runtime 13.0, compute capability 9.0)";
  made.uptime_s = 3661;
  made.configuration = 3;
  made.hash = "9f86d081884c7d65";
  made.results_per_s = 12345;
  made.frames_per_s = 98765;
  made.bytes_in_per_s = 9.99e8;
  made.bytes_out_per_s = 9.99e8;
  for (std::uint32_t shard = 0; shard < shards; ++shard) {
    made.shards.push_back({.number = shard, .state = "ready", .device_error = "", .slots_taken = 8, .slots = 16});
    for (std::uint32_t stream = 0; stream < streams; ++stream) {
      made.streams.push_back({.shard = shard, .stream = stream, .copy_in = 0.25, .compute = 0.5, .copy_out = 1});
    }
  }
  for (std::size_t each = 0; each < pipelines; ++each) {
    pipeline_figures figures;
    figures.name = "pipeline-" + std::to_string(each);
    figures.frames_per_batch = 128;
    figures.close_reason = "idle";
    figures.close_share = 1;
    figures.p50_us = 61.4;
    figures.p99_us = 1905;
    made.pipelines.push_back(figures);
  }
  for (std::size_t each = 0; each < clients; ++each) {
    client_figures figures;
    figures.name = "client-" + std::to_string(each);
    figures.requests = 96;
    figures.credits = 256;
    figures.held = 0.375;
    made.clients.push_back(figures);
  }
  return made;
}

std::vector<std::string> texts(const std::vector<top_line>& lines) {
  std::vector<std::string> all;
  std::transform(lines.begin(), lines.end(), std::back_inserter(all), [](const top_line& each) { return each.text(); });
  return all;
}

std::string whole(const std::vector<top_line>& lines) {
  std::string all;
  for (const std::string& each : texts(lines)) {
    all += each + "\n";
  }
  return all;
}

top_view sized(int columns, int rows) {
  return {.columns = columns, .rows = rows, .glyphs = bar_glyphs::eighths, .address = "127.0.0.1:7680"};
}

TEST(TopLayout, NeitherALineNorTheirNumberExceedsTheTerminal) {
  const auto figures = busy_daemon(4, 8, 64, 200);
  for (const auto& [columns, rows] : {std::pair{80, 24}, {120, 40}, {60, 12}, {20, 5}, {200, 60}, {1, 1}, {132, 1}}) {
    for (const top_section chosen : {top_section::shards, top_section::clients}) {
      top_view view = sized(columns, rows);
      view.chosen = chosen;
      const auto lines = lay_out(figures, view);
      EXPECT_EQ(lines.size(), static_cast<std::size_t>(rows));
      for (const std::string& line : texts(lines)) {
        EXPECT_LE(cells_of(line), columns) << line;
      }
    }
  }
}

TEST(TopLayout, AnOrdinaryDaemonFitsOn80By24Whole) {
  const std::string text = whole(lay_out(busy_daemon(1, 8, 5, 6), sized(80, 24)));
  for (const char* const part :
       {"penstockd 0.1.0 at 127.0.0.1:7680  ready  up 1h 01m  configuration 3 9f86d081", "1 SHARDS ", "2 STREAMS ",
        "3 PIPELINES ", "4 CLIENTS ", "pipeline-4", "client-5", "61.4 us", "1.91 ms", "idle 100%", "96/256",
        "    7 █▎···  25% ██▌··  50% █████ 100%", "errors 0/s  refused 0/s", "over the last 1.0 s", "h help"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(TopLayout, SourcesHaveASectionWhereThereAreAny) {
  top_figures figures = busy_daemon(1, 2, 1, 1);
  EXPECT_THAT(whole(lay_out(figures, sized(80, 24))), Not(HasSubstr("SOURCES")));
  figures.sources.push_back({.name = "north",
                             .state = "running",
                             .trouble = "",
                             .delivered_per_s = 2.4e6,
                             .queued = 0.5,
                             .lost = 4096,
                             .lost_per_s = 1,
                             .overrun = 12,
                             .late = 3,
                             .epochs = 2});
  figures.sources.push_back({.name = "tape", .state = "waiting", .trouble = "x.npy: can't be opened"});
  const std::string text = whole(lay_out(figures, sized(80, 24)));
  EXPECT_THAT(text, HasSubstr("5 SOURCES"));
  EXPECT_THAT(text, ::testing::ContainsRegex("north.*running +2.40M +4.10k +12 +3 +2\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("tape.*waiting +x.npy: can't be opened\n"));
}

TEST(TopLayout, SinksHaveASectionWhereThereAreAny) {
  top_figures figures = busy_daemon(1, 2, 1, 1);
  EXPECT_THAT(whole(lay_out(figures, sized(80, 24))), Not(HasSubstr("SINKS")));
  figures.sinks.push_back({.name = "waterfall",
                           .state = "full",
                           .trouble = "",
                           .delivered_per_s = 1200,
                           .bytes_per_s = 4096,
                           .queued = 1,
                           .dropped = 12,
                           .dropped_per_s = 1,
                           .pauses = 3});
  figures.sinks.push_back({.name = "disk", .state = "waiting", .trouble = "can't open /x"});
  const std::string text = whole(lay_out(figures, sized(80, 24)));
  EXPECT_THAT(text, HasSubstr("6 SINKS"));
  EXPECT_THAT(text, Not(HasSubstr("5 SOURCES")));
  EXPECT_THAT(text, ::testing::ContainsRegex("waterfall.*full +1.20k +[0-9.]+ [A-Za-z]+ +12 +3\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("disk.*waiting +can't open /x\n"));
}

TEST(TopLayout, EveryHeadingStandsOverTheEndOfItsFigures) {
  const auto lines = texts(lay_out(busy_daemon(1, 2, 1, 1), sized(80, 24)));
  const auto under = [&](const std::string& heading, const std::string& column) {
    const auto found = std::find_if(lines.begin(), lines.end(),
                                    [&](const auto& line) { return line.find(heading) != std::string::npos; });
    return found[1].substr(0, found->find(column) + column.size());
  };
  EXPECT_THAT(under("3 PIPELINES", "p99"), ::testing::EndsWith("1.91 ms"));
  EXPECT_THAT(under("3 PIPELINES", "batch"), ::testing::EndsWith(" 128"));
}

TEST(TopLayout, TheChosenSectionGetsTheRoomAndTheOthersSayHowManyTheyShow) {
  top_view view = sized(80, 24);
  view.chosen = top_section::clients;
  const std::string text = whole(lay_out(busy_daemon(2, 8, 20, 13), view));
  EXPECT_THAT(text, HasSubstr("client-12"));
  EXPECT_THAT(text, HasSubstr("3 PIPELINES 1/20"));
  EXPECT_THAT(text, HasSubstr("2 STREAMS 2/16"));
  EXPECT_THAT(text, Not(HasSubstr("4 CLIENTS 1")));
}

TEST(TopLayout, RowsAreSharedByNeedThenByChoiceThenInTurn) {
  EXPECT_THAT(share_rows({1, 4, 5, 6, 0, 0}, 16, top_section::pipelines), ElementsAre(1, 4, 5, 6, 0, 0));
  EXPECT_THAT(share_rows({9, 9, 9, 9, 0, 0}, 16, top_section::pipelines), ElementsAre(3, 2, 9, 2, 0, 0));
  EXPECT_THAT(share_rows({9, 9, 9, 9, 0, 0}, 6, top_section::clients), ElementsAre(1, 1, 1, 3, 0, 0));
  EXPECT_THAT(share_rows({9, 9, 9, 9, 0, 0}, 3, top_section::clients), ElementsAre(1, 1, 1, 0, 0, 0));
  EXPECT_THAT(share_rows({9, 9, 9, 9, 0, 0}, -5, top_section::clients), Each(0));
  EXPECT_THAT(share_rows({0, 0, 0, 9, 0, 0}, 5, top_section::shards), ElementsAre(0, 0, 0, 5, 0, 0));
}

TEST(TopLayout, SaysThatThereIsNoAnswerAndKeepsTheLastFigures) {
  top_view view = sized(80, 24);
  view.trouble = "Connection refused";
  const std::string later = whole(lay_out(busy_daemon(1, 2, 1, 1), view));
  EXPECT_THAT(later, HasSubstr("NO ANSWER, trying again: Connection refused"));
  EXPECT_THAT(later, HasSubstr("pipeline-0"));
  const std::string first = whole(lay_out(std::nullopt, view));
  EXPECT_THAT(first, HasSubstr("NO ANSWER, trying again: Connection refused"));
  EXPECT_THAT(first, HasSubstr("q quit"));
}

TEST(TopLayout, RatesSinceTheStartAreCalledSo) {
  auto figures = busy_daemon(1, 2, 1, 1);
  figures.interval_s = 0;
  EXPECT_THAT(texts(lay_out(figures, sized(80, 24))).back(), ::testing::EndsWith(" since the start"));
  figures.restarted = true;
  EXPECT_THAT(texts(lay_out(figures, sized(80, 24))).back(), ::testing::EndsWith(" restarted: since the start"));
}

TEST(TopLayout, AShardWhoseDeviceFailedSaysSo) {
  auto figures = busy_daemon(2, 1, 1, 1);
  figures.shards[0].device_error = "cudaErrorIllegalAddress";
  figures.shards[1].state = "missing";
  const std::string text = whole(lay_out(figures, sized(80, 24)));
  EXPECT_THAT(text, HasSubstr("the device has failed: cudaErrorIllegalAddress"));
  EXPECT_THAT(text, HasSubstr("1 missing  did not answer"));
}

TEST(TopLayout, WithoutUnicodeItIsPlainAscii) {
  top_view view = sized(80, 24);
  view.glyphs = bar_glyphs::ascii;
  auto figures = busy_daemon(1, 8, 1, 1);
  figures.clients[0].name =
      "Pr\xC3\xBC"
      "fstand";
  const std::string text = whole(lay_out(figures, view));
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](unsigned char byte) { return byte < 0x80; })) << text;
  EXPECT_THAT(text, HasSubstr("##...  25%"));
  EXPECT_THAT(text, HasSubstr("Pr?fstand"));
}

TEST(TopLayout, APeersNameCanNotSpeakToTheTerminal) {
  auto figures = busy_daemon(1, 1, 1, 1);
  figures.clients[0].name =
      "a\x1b[2Jb\n\xE2\x80\xAE\xC2\x9B"
      "c\xFF";
  const std::string text = whole(lay_out(figures, sized(80, 24)));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("a?[2Jb???c?"));
}

TEST(TopLayout, ATableToPrintIsAsLongAsItTakesAndHasNoKeys) {
  const auto lines = texts(lay_out(busy_daemon(1, 8, 40, 50), sized(80, 0)));
  EXPECT_THAT(lines.back(), StartsWith("  client-49"));
  EXPECT_THAT(lines, Each(Not(HasSubstr("q quit"))));
}

TEST(TopLayout, HelpNamesEveryKey) {
  top_view view = sized(80, 24);
  view.help = true;
  const std::string text = whole(lay_out(busy_daemon(1, 8, 5, 5), view));
  for (const char* const key : {"\nq ", "\ns ", "\np ", "\ntab 1-6 ", "\nh "}) {
    EXPECT_THAT(text, HasSubstr(key));
  }
}

TEST(TopLine, ABarIsAsLongAsItsPartAndNeverHidesWhatIsNotNought) {
  const auto bar = [](double part, bar_glyphs glyphs) { return top_line(8).bar(part, 4, glyphs, {}).text(); };
  EXPECT_EQ(bar(0, bar_glyphs::eighths), "····");
  EXPECT_EQ(bar(0.001, bar_glyphs::eighths), "▏···");
  EXPECT_EQ(bar(0.5, bar_glyphs::eighths), "██··");
  EXPECT_EQ(bar(0.59375, bar_glyphs::eighths), "██▍·");
  EXPECT_EQ(bar(1, bar_glyphs::eighths), "████");
  EXPECT_EQ(bar(7, bar_glyphs::eighths), "████");
  EXPECT_EQ(bar(-1, bar_glyphs::eighths), "····");
  EXPECT_EQ(bar(0.59375, bar_glyphs::halves), "██▌·");
  EXPECT_EQ(bar(0.59375, bar_glyphs::ascii), "###.");
}

TEST(TopLine, FiguresAreShort) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(3.214), "3.21");
  EXPECT_EQ(short_count(987), "987");
  EXPECT_EQ(short_count(999.6), "1.00k");
  EXPECT_EQ(short_count(12345), "12.3k");
  EXPECT_EQ(short_count(4.56e6), "4.56M");
  EXPECT_EQ(uptime_text(12.9), "12 s");
  EXPECT_EQ(uptime_text(247), "4m 07s");
  EXPECT_EQ(uptime_text(7500), "2h 05m");
  EXPECT_EQ(uptime_text(273600), "3d 04h");
}

}  // namespace
}  // namespace penstock::cli
