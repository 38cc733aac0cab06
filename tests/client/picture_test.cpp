#include "client/cli/picture.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "client/cli/plot.hpp"
#include "client/cli/spectrogram.hpp"
#include "client/cli/terminal.hpp"

namespace penstock::cli {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// Cells that a line takes: escape sequences take none, and each character of UTF-8 takes one.
int cells_of(const std::string& line) {
  int cells = 0;
  bool escape = false;
  for (const char each : line) {
    if (escape) {
      escape = each != 'm';
    } else if (each == '\x1b') {
      escape = true;
    } else if ((static_cast<unsigned char>(each) & 0xC0U) != 0x80U) {
      ++cells;
    }
  }
  return cells;
}

terminal plain_terminal(int columns, int rows) {
  return {false, columns, rows, color_depth::none};
}

tensor_info output(const std::string& op, std::int64_t extent) {
  return {"out", "f32", "f32", {extent}, false, op};
}

struct fit_case {
  const char* op;
  std::int64_t extent;
};

class PictureFit : public ::testing::TestWithParam<fit_case> {};

TEST_P(PictureFit, NeverLeavesTheTerminal) {
  for (const int frames : {0, 1, 2, 700, 1500}) {
    const auto drawn = picture_of(output(GetParam().op, GetParam().extent), {48000.0, 1024, false});
    std::vector<float> frame(static_cast<std::size_t>(GetParam().extent));
    for (int each = 0; each < frames; ++each) {
      for (std::size_t at = 0; at < frame.size(); ++at) {
        frame[at] = static_cast<float>((static_cast<std::size_t>(each) * 7 + at * 13) % 101);
      }
      drawn->add(frame);
    }
    for (const color_depth colors : {color_depth::none, color_depth::indexed, color_depth::full}) {
      for (const int columns : {60, 80, 213}) {
        const auto lines = lines_of(drawn->draw({false, columns, 24, colors}, 18));
        EXPECT_LE(lines.size(), 18U);
        const int widest = std::accumulate(lines.begin(), lines.end(), 0, [](int most, const std::string& line) {
          return std::max(most, cells_of(line));
        });
        EXPECT_LE(widest, columns) << frames << " frames in " << columns << " columns";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Outputs, PictureFit,
                         ::testing::Values(fit_case{"power_spectrum", 513}, fit_case{"power_spectrum", 5},
                                           fit_case{"moments", 5}, fit_case{"histogram", 256}, fit_case{"affine", 64}),
                         [](const auto& instance) {
                           return std::string(instance.param.op) + std::to_string(instance.param.extent);
                         });

/// The rows of a spectrogram's picture alone.
std::vector<std::string> cells(const std::string& text) {
  std::vector<std::string> rows;
  for (const std::string& line : lines_of(text)) {
    const auto edge = line.find_first_of("|+");
    if (edge != std::string::npos && line.find("--") == std::string::npos) {
      rows.push_back(line.substr(edge + 1));
    }
  }
  return rows;
}

TEST(EventTable, ListsTheLatestEventsAndNotThePadding) {
  tensor_info events{"events", "f32", "f32", {2, 3, 2}, false, "detect"};
  const auto drawn = picture_of(events, {1000.0, 500, false});
  drawn->add(std::vector<float>{1, 1, 7, 0.5, -1, 0, 0, 0, -1, 0, -1, 0});
  drawn->add(std::vector<float>{5, 2, 8, 0.25, 9, 0.75, 0, 0, -1, 0, -1, 0});
  EXPECT_EQ(drawn->draw(plain_terminal(80, 24), 10),
            "events (detect)  6 events in 2 frames, 3 of them not listed\n"
            "       frame   begins at of its rows       index        peak\n"
            "           0         0 s           0           7       0.500\n"
            "           1     0.500 s           0           8       0.250\n"
            "           1     0.500 s           0           9       0.750\n");
}

TEST(EventTable, ListsStartAndEndOfTheEventsOfASession) {
  const auto drawn = picture_of({"beats", "f64", "f64", {1, 3, 4}, false, "detect"}, {});
  drawn->add(std::vector<float>{0, 0, 380, 9.5, -1, -1, -1, 0, -1, -1, -1, 0});
  drawn->add(std::vector<float>{3, 2, -1, 0, 380, 420, 401, 12.5, 700, 741, 720, 11});
  EXPECT_EQ(drawn->draw(plain_terminal(80, 24), 10),
            "beats (detect)  3 events in 2 frames, 1 of them not listed\n"
            "       frame       start         end       index        peak\n"
            "           1         380         420         401        12.5\n"
            "           1         700         741         720          11\n");
}

TEST(EventTable, ListsThePlacesOfTop) {
  const auto drawn = picture_of({"best", "f32", "f32", {2, 2, 2}, false, "top"}, {});
  drawn->add(std::vector<float>{7, 0.5, -1, 0, 3, 2.5, 4, 0.25});
  EXPECT_EQ(drawn->draw(plain_terminal(80, 24), 10),
            "best (top)  3 places in 1 frame\n"
            "       frame of its rows       index       value\n"
            "           0           0           7       0.500\n"
            "           0           1           3       2.500\n"
            "           0           1           4       0.250\n");
}

TEST(EventTable, ListsNoMoreThanARowHolds) {
  const auto drawn = picture_of({"events", "f32", "f32", {3, 2}, false, "detect"}, {});
  for (const float told : {std::numeric_limits<float>::quiet_NaN(), -1.0F, std::numeric_limits<float>::infinity()}) {
    drawn->add(std::vector<float>{2, told, 7, 0.5, 8, 0.25});
  }
  EXPECT_EQ(drawn->draw(plain_terminal(80, 24), 10),
            "events (detect)  6 events in 3 frames, 4 of them not listed\n"
            "       frame       index        peak\n"
            "           2           7       0.500\n"
            "           2           8       0.250\n");
}

TEST(EventTable, KeepsToTheScreen) {
  const auto drawn = picture_of({"events", "f32", "f32", {3, 2}, false, "detect"}, {});
  for (int each = 0; each < 1000; ++each) {
    drawn->add(std::vector<float>{2, 2, 7, 0.5, 8, 0.5});
  }
  const auto lines = lines_of(drawn->draw(plain_terminal(20, 24), 12));
  EXPECT_EQ(lines.size(), 12U);
  EXPECT_TRUE(std::all_of(lines.begin() + 1, lines.end(), [](const auto& line) { return cells_of(line) <= 20; }));
}

TEST(HeatMap, DrawsTheLatestFrameOfTwoDimensionsWithItsFirstRowBelow) {
  const auto drawn = picture_of({"map", "f32", "f32", {1, 16, 32}, false, "map"}, {});
  std::vector<float> numbers(16 * 32, -60.0F);
  drawn->add(numbers);
  numbers[3 * 32 + 20] = -10.0F;
  numbers[4 * 32 + 20] = std::numeric_limits<float>::quiet_NaN();
  drawn->add(numbers);
  const std::string text = drawn->draw(plain_terminal(40, 24), 20);  // 16 rows for the map
  EXPECT_THAT(text, HasSubstr("map  frame 1, 16 by 32 numbers"));
  EXPECT_THAT(text, HasSubstr("-60 "));
  EXPECT_THAT(text, HasSubstr(" -10\n"));
  const std::vector<std::string> rows = cells(text);
  ASSERT_EQ(rows.size(), 16U);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::size_t place = rows[row].find('@');
    EXPECT_EQ(place != std::string::npos, row == 15 - 3) << text;
    if (row == 15 - 3) {
      EXPECT_EQ(place * 32 / rows[row].size(), 20U) << text;
    }
  }
}

TEST(LineChart, ShowsTheLatestOfLongRows) {
  const auto drawn = picture_of({"mean", "f32", "f32", {4, 64}, true, "accumulate", 8}, {{}, 1, false, "row"});
  drawn->add(std::vector<float>(64, 9.0F));
  std::vector<float> row(64, 0.0F);
  row[40] = 3.0F;
  drawn->add(row);
  const std::string text = drawn->draw(plain_terminal(72, 24), 12);
  EXPECT_THAT(text, HasSubstr("mean (accumulate)  row 1, from 0 to 3"));
  const std::vector<std::string> rows = cells(text);
  const std::size_t place = rows.front().find_first_not_of(' ');
  ASSERT_NE(place, std::string::npos) << text;
  EXPECT_EQ(place * 64 / rows.front().size(), 40U) << text;
}

TEST(RowChart, DrawsManyLongRowsOverTime) {
  const auto drawn = picture_of({"lags", "f32", "f32", {4, 64}, true, "slice", 8}, {{}, 1, false, "row"});
  for (int row = 0; row < 40; ++row) {
    std::vector<float> numbers(64, -3.0F);
    numbers[row < 20 ? 60 : 3] = 5.0F;
    drawn->add(numbers);
  }
  const std::string text = drawn->draw(plain_terminal(60, 80), 68);  // a line for each number
  EXPECT_THAT(text, HasSubstr("lags (slice)  40 rows of 64 numbers"));
  EXPECT_THAT(text, testing::Not(HasSubstr("dB")));
  const std::vector<std::string> rows = cells(text);
  ASSERT_EQ(rows.size(), 64U);
  EXPECT_EQ(rows[63 - 60].front(), '@') << text;
  EXPECT_EQ(rows[63 - 60].back(), ' ') << text;
  EXPECT_EQ(rows[63 - 3].front(), ' ') << text;
  EXPECT_EQ(rows[63 - 3].back(), '@') << text;
}

/// The line of the cells of place `at`, of a picture with a line for each.
std::string line_of(const std::string& text, std::size_t at) {
  const std::vector<std::string> rows = cells(text);
  return at < rows.size() ? rows[rows.size() - 1 - at] : "";
}

TEST(Spectrogram, IsDrawnOfBinsChannelsAndBandsByTheirNumbers) {
  for (const std::string op : {"stft", "channelize", "mel"}) {
    const bool is_mel = op == "mel";
    const auto drawn = picture_of({"y", "f32", "f32", {64, 32}, true, op, 16}, {1000.0, 16, true, "row"});
    std::vector<float> numbers(32, 1.0F);
    numbers[20] = 1000.0F;
    for (int row = 0; row < 20; ++row) {
      drawn->add(numbers);
    }
    const std::string text = drawn->draw(plain_terminal(60, 40), 36);
    EXPECT_THAT(text, HasSubstr("20 rows of 32 numbers"));
    EXPECT_THAT(text, HasSubstr(is_mel ? "30 dB" : "60 dB"));
    EXPECT_EQ(line_of(text, 20).front(), '@') << text;
    EXPECT_EQ(line_of(text, 4).front(), ' ') << text;
  }
}

TEST(RowChart, LeavesOutWhatIsNotFinite) {
  const auto drawn = picture_of({"level", "f32", "f32", {4, 32}, true, "map", 8}, {{}, 1, false, "row"});
  std::vector<float> numbers(32, -20.0F);
  numbers[3] = -std::numeric_limits<float>::infinity();
  numbers[9] = -10.0F;
  for (int row = 0; row < 20; ++row) {
    drawn->add(numbers);
  }
  const std::string text = drawn->draw(plain_terminal(60, 40), 36);
  EXPECT_EQ(line_of(text, 9).front(), '@') << text;
  EXPECT_EQ(line_of(text, 3).front(), ' ') << text;
}

TEST(HeatMap, IsNotForAFewColumns) {
  const auto drawn = picture_of({"levels", "f32", "f32", {64, 3}, false, "affine"}, {});
  drawn->add(std::vector<float>(64 * 3, 1.0F));
  EXPECT_THAT(drawn->draw(plain_terminal(60, 24), 12), HasSubstr("1 frames, from 1 to 1"));
}

TEST(Spectrogram, FrequencyRisesAndTimeGoesRight) {
  spectrogram drawn{"psd", {8000.0, 128, false}};
  std::vector<float> frame(65, 1.0F);
  for (int each = 0; each < 40; ++each) {
    std::fill(frame.begin(), frame.end(), 1.0F);
    frame[each < 20 ? 2 : 62] = 1e6F;  // low first, high then
    drawn.add(frame);
  }
  const auto rows = cells(drawn.draw(plain_terminal(60, 24), 16));
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows.back().front(), '@');
  EXPECT_EQ(rows.front().back(), '@');
  EXPECT_EQ(rows.front().front(), ' ');
  EXPECT_EQ(rows.back().back(), ' ');
}

TEST(Spectrogram, ComplexInputHasZeroInTheMiddle) {
  spectrogram drawn{"psd", {1000.0, 64, true}};
  std::vector<float> frame(64, 1.0F);
  frame[0] = 1e6F;
  for (int each = 0; each < 10; ++each) {
    drawn.add(frame);
  }
  const std::string text = drawn.draw(plain_terminal(60, 24), 19);
  const auto rows = cells(text);
  const auto bright = std::find_if(rows.begin(), rows.end(), [](const std::string& row) { return row.front() == '@'; });
  EXPECT_NEAR(static_cast<double>(bright - rows.begin()), static_cast<double>(rows.size()) / 2, 1);
  EXPECT_THAT(text, HasSubstr("-400 Hz"));
}

TEST(Spectrogram, AveragesPowerWhereFramesShareAColumn) {
  spectrogram drawn{"psd", {}};
  const std::vector<float> quiet{1, 1};
  const std::vector<float> loud{1, 1999};
  for (int each = 0; each < 4096; ++each) {
    drawn.add(each % 2 == 0 ? quiet : loud);
  }
  // Every column holds as many quiet frames as loud ones: (1 + 1999) / 2 = 30 dB in the upper bin, 0 dB in the lower.
  const std::string text = drawn.draw(plain_terminal(60, 24), 16);
  EXPECT_THAT(text, HasSubstr("0 dB"));
  EXPECT_THAT(text, HasSubstr("30 dB"));
}

TEST(Spectrogram, SilenceAndDecibelsAreDrawnToo) {
  spectrogram silence{"psd", {}};
  silence.add(std::vector<float>(8, 0.0F));
  EXPECT_EQ(cells(silence.draw(plain_terminal(40, 24), 12)).front().find_first_not_of(' '), std::string::npos);
  spectrogram decibels{"psd", {}};
  decibels.add(std::vector<float>{-90.0F, -10.0F});
  EXPECT_THAT(decibels.draw(plain_terminal(60, 24), 12), HasSubstr("-10 dB"));
}

TEST(Picture, TimeBeginsAtTheFirstSample) {
  sample_clock clock{1000.0, 100};
  clock.first_sample = 50'000;
  const auto spectra = picture_of({"psd", "f32", "f32", {64}, false, "power_spectrum"}, clock);
  const auto lines = picture_of({"y", "f32", "f32", {1}, false, "affine"}, clock);
  const std::vector<float> frame(64, 1.0F);
  for (int each = 0; each < 40; ++each) {
    spectra->add(frame);
    lines->add(std::span(frame).first(1));
  }
  for (const auto* const drawn : {spectra.get(), lines.get()}) {
    const std::string text = drawn->draw(plain_terminal(60, 24), 16);
    EXPECT_THAT(text, HasSubstr(" 52 s")) << "the middle of 4 s";
    EXPECT_THAT(text, ::testing::Not(HasSubstr(" 2 s")));
  }
  const auto events = picture_of({"events", "f32", "f32", {3, 2}, false, "detect"}, clock);
  events->add(std::vector<float>{5, 1, -1, 0, -1, 0});
  EXPECT_THAT(events->draw(plain_terminal(60, 24), 16), HasSubstr(" 50 s"));
}

TEST(Picture, MomentsAreATableWithTheirRange) {
  const auto drawn = picture_of(output("moments", 5), {});
  drawn->add(std::vector<float>{1, 2, 3, 4, 5});
  drawn->add(std::vector<float>{3, 2, 3, 4, 5});
  const std::string text = drawn->draw(plain_terminal(80, 24), 20);
  EXPECT_THAT(text, HasSubstr("  mean            1          2          3"));
  EXPECT_THAT(text, HasSubstr("rms"));
}

TEST(Picture, MomentsOfComplexSamplesAreNamed) {
  const auto drawn = picture_of({"out", "f32", "f32", {3, 5}, false, "moments"}, {{}, 1, true});
  drawn->add(std::vector<float>(15, 1.0F));
  const std::string text = drawn->draw(plain_terminal(80, 24), 20);
  EXPECT_THAT(text, HasSubstr("  |z|  "));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("[2]")));
}

TEST(Picture, HistogramAddsUpItsFrames) {
  const auto drawn = picture_of(output("histogram", 4), {});
  drawn->add(std::vector<float>{1, 0, 0, 5});
  drawn->add(std::vector<float>{1, 0, 0, 3});
  EXPECT_THAT(drawn->draw(plain_terminal(80, 24), 20), HasSubstr("2 frames, 10 counts in 4 bins"));
}

TEST(Picture, NumbersOfComplexTensorsAreMagnitudes) {
  const std::vector<float> parts{3, 4, 0, -2};
  tensor_view tensor;
  tensor.dtype = "c64";
  tensor.bytes = std::as_bytes(std::span{parts});
  EXPECT_THAT(numbers_of(tensor), ::testing::ElementsAre(5.0F, 2.0F));
}

TEST(Picture, NumbersOfEveryDtypeAreDrawn) {
  const auto numbers = [](std::string_view dtype, const auto& elements) {
    tensor_view tensor;
    tensor.dtype = dtype;
    tensor.bytes = std::as_bytes(std::span{elements});
    return numbers_of(tensor);
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(numbers("f16", std::vector<std::uint16_t>{0x3e00, 0xc000}), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(numbers("bf16", std::vector<std::uint16_t>{0x3fc0, 0xc000}), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(numbers("f64", std::vector<double>{0.5, -2}), ElementsAre(0.5F, -2.0F));
  EXPECT_THAT(numbers("i64", std::vector<std::int64_t>{-5, 1 << 20}), ElementsAre(-5.0F, 1048576.0F));
  EXPECT_THAT(numbers("u16", std::vector<std::uint16_t>{65535, 0}), ElementsAre(65535.0F, 0.0F));
  EXPECT_THAT(numbers("bool", std::vector<std::uint8_t>{1, 0, 1}), ElementsAre(1.0F, 0.0F, 1.0F));
}

TEST(Series, KeepsRangeAndMeanHoweverLongItGets) {
  series numbers{8};
  for (int each = 0; each < 1000; ++each) {
    numbers.add(each);
  }
  numbers.add(std::nan(""));
  EXPECT_EQ(numbers.size(), 1001U);
  EXPECT_EQ(numbers.whole().count, 1000U);
  EXPECT_DOUBLE_EQ(numbers.whole().mean(), 499.5);
  double last = -1;
  std::uint64_t counted = 0;
  for (const series::bucket& part : numbers.cut(4)) {
    EXPECT_GT(part.low, last);
    last = part.high;
    counted += part.count;
  }
  EXPECT_EQ(counted, 1000U);
  EXPECT_DOUBLE_EQ(last, 999);
}

TEST(ProgressBar, LineFitsAndSaysHowFar) {
  std::ostringstream out;
  for (const int columns : {20, 60, 80, 200}) {
    const progress_bar bar{out, {true, columns, 24, color_depth::full}, 1000};
    const std::string line = bar.line({12, 500, 3, std::chrono::seconds{1}});
    EXPECT_LE(cells_of(line), columns - 1);
  }
  const progress_bar bar{out, {true, 100, 24, color_depth::none}, 1000};
  EXPECT_THAT(bar.line({12, 500, 3, std::chrono::seconds{1}}), HasSubstr("50 %"));
  EXPECT_THAT(bar.line({12, 500, 3, std::chrono::seconds{1}}), HasSubstr("12 frames  500 B/s  3 in flight"));
}

TEST(ProgressBar, IsSilentWhereNobodyLooks) {
  std::ostringstream out;
  progress_bar bar{out, plain_terminal(80, 24), 1000};
  bar.show({12, 500, 3, std::chrono::seconds{1}});
  bar.clear();
  EXPECT_EQ(out.str(), "");
}

TEST(ProgressBar, DrawsAtMostTenTimesASecond) {
  std::ostringstream out;
  progress_bar bar{out, {true, 80, 24, color_depth::none}, {}};
  bar.show({1, 1, 1, std::chrono::milliseconds{5}});
  bar.show({2, 2, 1, std::chrono::milliseconds{50}});
  EXPECT_THAT(out.str(), ::testing::Not(HasSubstr("2 frames")));
  bar.show({3, 3, 1, std::chrono::milliseconds{106}});
  EXPECT_THAT(out.str(), HasSubstr("3 frames"));
}

}  // namespace
}  // namespace penstock::cli
