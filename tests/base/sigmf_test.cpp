#include "base/sigmf.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/whole_file.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

// As the specification's examples have it, with keys of an extension.
constexpr const char* example = R"({
  "global": {"core:datatype": "cf32_le", "core:sample_rate": 2400000.0, "core:version": "1.0.0",
             "core:author": "A. Station", "antenna:gain": 3.5},
  "captures": [
    {"core:sample_start": 0, "core:global_index": 1000, "core:datetime": "2026-01-31T12:00:00.25Z",
     "core:frequency": 100e6},
    {"core:sample_start": 500, "core:global_index": 2000, "x:note": [1, 2]}],
  "annotations": [{"core:sample_start": 10, "core:sample_count": 5, "core:label": "burst"}]
})";

std::string complaint_about(const std::string& text) {
  try {
    (void)parse_sigmf(text);
    return "";
  } catch (const sigmf_error& error) {
    return error.what();
  }
}

TEST(sigmf, ReadsCapturesWithTheirPlacesAndTimesAndKeepsTheRest) {
  const sigmf_meta meta = parse_sigmf(example);
  EXPECT_EQ(meta.datatype, "cf32_le");
  EXPECT_EQ(meta.sample_rate, 2.4e6);
  EXPECT_EQ(meta.channels, 1U);
  ASSERT_EQ(meta.captures.size(), 2U);
  EXPECT_EQ(meta.captures[0].global_index, 1000U);
  EXPECT_EQ(meta.captures[0].time_ns, 1769860800250000000);
  EXPECT_EQ(meta.captures[0].frequency, 100e6);
  EXPECT_EQ(meta.captures[1].sample_start, 500U);
  EXPECT_EQ(meta.captures[1].more, R"({"x:note":[1,2]})");
  ASSERT_EQ(meta.annotations.size(), 1U);
  EXPECT_THAT(meta.annotations[0], HasSubstr("burst"));
  EXPECT_THAT(meta.more, HasSubstr("antenna:gain"));
  EXPECT_EQ(parse_sigmf(print_sigmf(meta)), meta);
}

TEST(sigmf, RefusesWhatIsNestedDeeply) {
  const auto nested = [](std::size_t levels) {
    return R"({"global": {"core:datatype": "cu8", "x": )" + std::string(levels, '[') + std::string(levels, ']') + "}}";
  };
  EXPECT_EQ(complaint_about(nested(50)), "");
  EXPECT_THAT(complaint_about(nested(100)), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(complaint_about(nested(1'000'000)), HasSubstr("nested deeper"));
}

TEST(sigmf, RefusesWhatItCantRead) {
  EXPECT_THAT(complaint_about("[]"), HasSubstr("\"global\""));
  EXPECT_THAT(complaint_about("{"), HasSubstr("\"global\""));
  EXPECT_THAT(complaint_about(R"({"global": {}})"), HasSubstr("core:datatype"));
  EXPECT_THAT(complaint_about(R"({"global": {"core:datatype": 3}})"), HasSubstr("core:datatype is 3"));
  const auto with = [](const std::string& captures) {
    return R"({"global": {"core:datatype": "cu8"}, "captures": )" + captures + "}";
  };
  EXPECT_THAT(complaint_about(with("{}")), HasSubstr("captures is no array"));
  EXPECT_THAT(complaint_about(with("[{}]")), HasSubstr("no core:sample_start"));
  EXPECT_THAT(complaint_about(with(R"([{"core:sample_start": -1}])")), HasSubstr("no whole number"));
  EXPECT_THAT(complaint_about(with(R"([{"core:sample_start": 5}, {"core:sample_start": 4}])")), HasSubstr("order"));
  EXPECT_THAT(complaint_about(with(R"([{"core:sample_start": 5, "core:datetime": "noon"}])")), HasSubstr("noon"));
}

TEST(sigmf, HasNamesForTheTypesOfTheDaemon) {
  for (const char* const element : {"cf32", "ci16", "ci8", "cu8", "f32", "f64", "i32", "i16", "u16", "i8", "u8"}) {
    EXPECT_EQ(element_of_sigmf(sigmf_of_element(element)), element);
  }
  EXPECT_EQ(element_of_sigmf("cf32_be"), "");
  EXPECT_EQ(sigmf_of_element("bf16"), "");
}

TEST(sigmf, RefusesPlacesThatNoStreamHas) {
  for (const char* const capture : {R"({"core:sample_start":1152921504606846977})",
                                    R"({"core:sample_start":0,"core:global_index":18446744073709551615})"}) {
    EXPECT_THROW(
        (void)parse_sigmf(std::string(R"({"global":{"core:datatype":"cf32_le"},"captures":[)") + capture + "]}"),
        sigmf_error);
  }
}

TEST(sigmf, WritesNothingThatItDoesNotRead) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("sigmf_test-far-" + std::to_string(::getpid()) + ".sigmf-meta");
  const std::array<std::byte, 8> sample{};
  for (const bool continues : {false, true}) {
    sigmf_meta meta;
    meta.datatype = "cf32_le";
    sigmf_writer writer(file, meta, continues);
    for (const std::int64_t far : {INT64_MIN, std::int64_t{-1}, INT64_MAX}) {
      sigmf_capture capture;
      capture.global_index = static_cast<std::uint64_t>(far);
      capture.time_ns = far;
      writer.begin(capture);
      writer.append(sample);
    }
    writer.describe(1000, INT64_MAX);
    writer.describe(0);
  }
  const sigmf_meta read = parse_sigmf(read_whole_file(file, 1 << 20));
  ASSERT_EQ(read.captures.size(), 6U);
  EXPECT_EQ(read.captures[1].time_ns, -1);
  std::filesystem::remove(file);
  std::filesystem::remove(sigmf_data_path(file));
}

TEST(sigmf, CompletesWhatCapturesDoNotSay) {
  sigmf_meta meta;
  EXPECT_EQ(complete_captures(meta).size(), 1U) << "there is one always";
  meta.captures.resize(4);
  meta.captures[0].global_index = 100;
  meta.captures[1].sample_start = 10;
  meta.captures[2].sample_start = 20;
  meta.captures[2].global_index = 150;
  meta.captures[3].sample_start = 30;
  meta.captures[3].global_index = 5;
  const std::vector<sigmf_capture> all = complete_captures(meta);
  EXPECT_EQ(all[1].global_index, 110U);
  EXPECT_EQ(all[1].lost_before, 0U);
  EXPECT_EQ(all[2].lost_before, 30U);
  EXPECT_EQ(all[2].epoch, 0U);
  EXPECT_EQ(all[3].epoch, 1U);
  EXPECT_EQ(all[3].lost_before, 0U);
  meta.captures[2].epoch = 7;
  EXPECT_EQ(complete_captures(meta)[2].lost_before, 0U);
  EXPECT_EQ(complete_captures(meta)[3].epoch, 0U);
}

TEST(sigmf, WritesARecordingThatCanBeReadWhileItIsWritten) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "penstock-sigmf-test.sigmf-meta";
  const auto read = [&] {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return parse_sigmf(std::move(text).str());
  };
  const std::array<std::int16_t, 6> samples{1, 2, 3, 4, 5, 6};
  {
    sigmf_meta meta;
    meta.datatype = "ci16_le";
    meta.sample_rate = 48000;
    sigmf_writer writer(file, meta);
    sigmf_capture first;
    first.global_index = 7;
    writer.begin(first);
    writer.append(std::as_bytes(std::span(samples)));
    EXPECT_THROW(writer.append(std::as_bytes(std::span(samples)).first(3)), sigmf_error);
    EXPECT_EQ(writer.samples(), 3U);
    sigmf_capture second;
    second.global_index = 100;
    second.time_ns = 1'000;
    writer.begin(second);
    EXPECT_EQ(read().captures.size(), 2U);
    writer.append(std::as_bytes(std::span(samples)));
    writer.annotate(R"({"core:sample_start":1})");
  }
  const sigmf_meta meta = read();
  ASSERT_EQ(meta.captures.size(), 2U);
  EXPECT_EQ(meta.captures[1].sample_start, 3U);
  EXPECT_EQ(meta.captures[1].time_ns, 1'000);
  EXPECT_EQ(meta.annotations.size(), 1U);
  EXPECT_EQ(std::filesystem::file_size(sigmf_data_path(file)), 24U);
  std::filesystem::remove(file);
  std::filesystem::remove(sigmf_data_path(file));
}

}  // namespace
}  // namespace penstock
