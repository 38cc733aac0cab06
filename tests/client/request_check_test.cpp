#include <gmock/gmock.h>

#include "client/cpp/catalogue.hpp"

namespace penstock::test {
namespace {

using ::testing::HasSubstr;

wire::welcome offer() {
  wire::welcome offer;
  offer.max_request_bytes = 64;
  wire::pipeline_description fixed;
  fixed.name = "iq";
  fixed.max_frames = 4;
  fixed.input = {"input", "i16", "ci16", {3, 2}, false, ""};
  wire::pipeline_description variable;
  variable.id = 1;
  variable.name = "voice";
  variable.max_frames = 100;
  variable.input = {"input", "f32", "f32", {8}, true, ""};
  offer.pipelines = {fixed, variable};
  return offer;
}

struct check_case {
  const char* name;
  const char* pipeline;
  std::size_t bytes;
  std::uint32_t frames;
  std::int64_t leading;
  const char* status;  ///< nullptr = it is taken
  const char* text;
};

void PrintTo(const check_case& what, std::ostream* out) {
  *out << what.name;
}

class RequestCheck : public ::testing::TestWithParam<check_case> {};

TEST_P(RequestCheck, TakesOnlyWhatThePipelineTakes) {
  const link::catalogue catalogue{offer()};
  const check_case& what = GetParam();
  const std::vector<std::byte> bytes(what.bytes);
  client::request request;
  request.bytes = bytes;
  request.frames = what.frames;
  request.leading = what.leading;
  if (what.status == nullptr) {
    EXPECT_EQ(catalogue.check(what.pipeline, request, false)->name, what.pipeline);
    return;
  }
  try {
    (void)catalogue.check(what.pipeline, request, false);
    FAIL() << "it was taken";
  } catch (const request_error& error) {
    EXPECT_EQ(error.status_name(), what.status);
    EXPECT_THAT(error.what(), HasSubstr(what.text));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Requests, RequestCheck,
    ::testing::Values(check_case{"OneFrame", "iq", 12, 1, 0, nullptr, ""},
                      check_case{"MostFrames", "iq", 48, 4, 0, nullptr, ""},
                      check_case{"LeadingNamedThoughFixed", "iq", 12, 1, 3, nullptr, ""},
                      check_case{"FullVariable", "voice", 32, 1, 0, nullptr, ""},
                      check_case{"ShortVariable", "voice", 24, 2, 3, nullptr, ""},
                      check_case{"UnknownListsOthers", "none", 12, 1, 0, "UNKNOWN_PIPELINE", "iq, voice"},
                      check_case{"NoFrames", "iq", 0, 0, 0, "TOO_LARGE", "1 to 4"},
                      check_case{"TooManyFrames", "iq", 60, 5, 0, "TOO_LARGE", "1 to 4"},
                      check_case{"TooFewBytes", "iq", 11, 1, 0, "WRONG_SHAPE", "ci16[3] are 12 bytes, not 11"},
                      check_case{"TooManyBytes", "iq", 13, 1, 0, "WRONG_SHAPE", "not 13"},
                      check_case{"ShortThoughFixed", "iq", 8, 1, 2, "WRONG_SHAPE", "leading extent of 2"},
                      check_case{"LeadingBeyondMost", "voice", 36, 1, 9, "WRONG_SHAPE", "max 8"},
                      check_case{"LeadingBelowZero", "voice", 4, 1, -1, "WRONG_SHAPE", "-1"},
                      check_case{"OverTheLargestRequest", "voice", 96, 3, 0, "TOO_LARGE", "at most 64"}),
    [](const auto& instance) { return std::string(instance.param.name); });

/// What the check says of `frames` of `leading` in a session of a pipeline like "voice" that keeps state.
std::string refusal(std::uint32_t frames, std::int64_t leading, bool in_session) {
  wire::welcome body = offer();
  body.max_request_bytes = 1000;
  body.pipelines[1].keeps_state = true;
  body.pipelines[1].period = 4;
  const std::vector<std::byte> bytes(4 * frames * static_cast<std::size_t>(leading == 0 ? 8 : leading));
  client::request request;
  request.bytes = bytes;
  request.frames = frames;
  request.leading = leading;
  try {
    (void)link::catalogue{body}.check("voice", request, in_session);
  } catch (const request_error& error) {
    return error.what();
  }
  return "";
}

TEST(SessionCheck, PipelineThatKeepsStateTakesSessionsOnly) {
  EXPECT_THAT(refusal(1, 0, false), HasSubstr("SESSION_REQUIRED: pipeline \"voice\" keeps state: open a session"));
  EXPECT_EQ(refusal(1, 0, true), "");
}

TEST(SessionCheck, SeveralFramesHaveALengthOfWholePeriods) {
  EXPECT_EQ(refusal(2, 0, true), "");
  EXPECT_EQ(refusal(3, 4, true), "");
  EXPECT_EQ(refusal(1, 5, true), "");
  EXPECT_THAT(refusal(2, 5, true), HasSubstr("a multiple of 4, not 5"));
}

TEST(SessionCheck, PipelineWithoutStateTakesBoth) {
  const std::vector<std::byte> bytes(12);
  client::request request;
  request.bytes = bytes;
  EXPECT_EQ(link::catalogue{offer()}.check("iq", request, true)->name, "iq");
}

TEST(TensorInfo, BytesThatOverflowAreNone) {
  tensor_info tensor{"input", "f32", "f32", {INT64_MAX, 4}, false, ""};
  EXPECT_EQ(tensor.frame_bytes(), 0U);
  tensor.shape = {-1};
  EXPECT_EQ(tensor.frame_bytes(), 0U);
}

}  // namespace
}  // namespace penstock::test
