#include "daemon/net/admission.hpp"

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/control.hpp"
#include "tests/daemon/net/message_draft.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/start.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using testing::judge;
using testing::judgement;
using testing::message_draft;
using testing::start;
using wire::status;

TEST(Admission, AdmitsARightSubmit) {
  const plan pipeline = testing::hand_made_plan(0, {.shape = {16}, .variable = true, .max_frames = 4});
  const judgement made = judge({}, pipeline);
  EXPECT_TRUE(made.said.admitted()) << made.said.reason();
  EXPECT_EQ(made.what.leading, 16);
  EXPECT_EQ(made.header.request_id, 5U);
}

TEST(Admission, ReadsTheAccountOfTheSamples) {
  const plan pipeline = testing::hand_made_plan(0, {.shape = {16}, .max_frames = 4});
  EXPECT_FALSE(judge({}, pipeline).what.account);
  for (const std::size_t parts : {std::size_t{1}, std::size_t{2}}) {
    message_draft draft;
    draft.parts = parts;
    draft.account = wire::sample_account{.index = 48000, .lost_before = 3, .flags = wire::sample_flag::index_known};
    const judgement made = judge(draft, pipeline);
    EXPECT_TRUE(made.said.admitted()) << made.said.reason();
    EXPECT_EQ(made.what.account, draft.account);
  }
}

TEST(Admission, AdmitsARightSubmitInOnePart) {
  message_draft draft;
  draft.parts = 1;
  const plan pipeline = testing::hand_made_plan(0, {.shape = {16}, .max_frames = 4});
  EXPECT_TRUE(judge(draft, pipeline).said.admitted());
  draft.header.frames = 1;
  draft.tensor.shape = {1, 4096};
  draft.tensor.bytes = 4096;
  draft.payload.assign(4096, 'x');
  EXPECT_TRUE(judge(draft, testing::hand_made_plan(0, {.shape = {4096}})).said.admitted());
}

TEST(Admission, AdmitsAShorterLeadingDimensionWhereItVaries) {
  message_draft draft;
  draft.tensor.shape = {2, 1};
  draft.tensor.bytes = 2;
  draft.payload.resize(2);
  const judgement made = judge(draft, testing::hand_made_plan(0, {.shape = {16}, .variable = true}));
  EXPECT_TRUE(made.said.admitted()) << made.said.reason();
  EXPECT_EQ(made.what.leading, 1);
  const judgement fixed = judge(draft, testing::hand_made_plan(0, {.shape = {16}}));
  EXPECT_EQ(fixed.said.code, status::wrong_shape);
  EXPECT_THAT(fixed.said.reason(), ::testing::Not(HasSubstr("shorter")));
}

TEST(Admission, AdmitsIntegerIqAsPairs) {
  message_draft draft;
  draft.tensor.dimensions = 3;
  draft.tensor.shape = {2, 16, 2};
  draft.tensor.bytes = 64;
  draft.payload.resize(64);
  const plan pipeline = testing::hand_made_plan(0, {.shape = {16}, .type = element_type::cu8});
  EXPECT_TRUE(judge(draft, pipeline).said.admitted());
  draft.tensor.shape = {2, 32, 1};
  EXPECT_EQ(judge(draft, pipeline).said.code, status::wrong_shape);
}

TEST(Admission, AdmitsThePipelineOfMostDimensions) {
  message_draft draft;
  draft.header.frames = 1;
  draft.tensor.dimensions = 8;
  draft.tensor.shape = {1, 1, 2, 1, 2, 1, 2, 2};
  draft.tensor.bytes = 16;
  draft.payload.resize(16);
  const plan pipeline = testing::hand_made_plan(0, {.shape = {1, 2, 1, 2, 1, 2}, .type = element_type::cu8});
  EXPECT_TRUE(judge(draft, pipeline).said.admitted());
}

TEST(Admission, RefusesMoreBytesThanARequestMayHaveInAllItsParts) {
  client_settings limits;
  limits.max_request_bytes = 32;
  const plan pipeline = testing::hand_made_plan(0);
  EXPECT_TRUE(judge({}, pipeline, limits).said.admitted());
  message_draft draft;
  draft.extra_bytes = 1;
  const judgement made = judge(draft, pipeline, limits);
  EXPECT_EQ(made.said.code, status::too_large);
  EXPECT_THAT(made.said.reason(), HasSubstr("33 bytes"));
  EXPECT_THAT(made.said.reason(), HasSubstr("at most 32"));
}

TEST(Admission, RefusesAControlMessageWithALargeBody) {
  message_draft draft;
  draft.header.type = wire::message_type::hello;
  draft.header.tensors = 0;
  draft.payload.assign(wire::max_request_body_bytes + 1, 'x');
  const judgement made = judge(draft, testing::hand_made_plan(0));
  EXPECT_EQ(made.said.code, status::too_large);
  EXPECT_THAT(made.said.reason(), HasSubstr("4097 bytes"));
}

// Each thing that can be wrong with a SUBMIT.

struct refusal_row {
  const char* name;
  std::function<void(message_draft&)> change;
  status expected;
  std::vector<std::string> reason;  // what the reason must name
};

class Refusal : public ::testing::TestWithParam<refusal_row> {
 protected:
  static plan variable_plan() { return testing::hand_made_plan(0, {.shape = {16}, .variable = true, .max_frames = 4}); }
};

TEST_P(Refusal, HasItsStatusAndNamesWhatIsWrong) {
  message_draft draft;
  GetParam().change(draft);
  const judgement made = judge(draft, variable_plan());
  EXPECT_EQ(made.said.code, GetParam().expected) << made.said.reason();
  for (const std::string& each : GetParam().reason) {
    EXPECT_THAT(made.said.reason(), HasSubstr(each));
  }
}

const refusal_row refusals[] = {
    {"EmptyHead", [](message_draft& m) { m.head_bytes = 0; }, status::malformed, {"shorter than 64"}},
    {"TruncatedHeader", [](message_draft& m) { m.head_bytes = 63; }, status::malformed, {"shorter than 64"}},
    {"WrongMagic", [](message_draft& m) { m.break_magic = true; }, status::malformed, {"PNSK"}},
    {"AnotherMajorVersion",
     [](message_draft& m) { m.header.major = 2; },
     status::unsupported_version,
     {"version", "1 to 1"}},
    {"HeaderLengthUnderTheHeader",
     [](message_draft& m) { m.header.header_len = 63; },
     status::malformed,
     {"header_len"}},
    {"AbsurdHeaderLength", [](message_draft& m) { m.header.header_len = 65535; }, status::malformed, {"header_len"}},
    {"HeaderLengthOverTheTensor",
     [](message_draft& m) { m.header.header_len = 65; },
     status::malformed,
     {"tensor header"}},
    {"TooManyTensors", [](message_draft& m) { m.header.tensors = 65; }, status::too_large, {"64 tensors"}},
    {"TensorHeaderMissing", [](message_draft& m) { m.head_bytes = 64; }, status::malformed, {"tensor header"}},
    {"TwoTensorsAnnouncedOneSent",
     [](message_draft& m) { m.header.tensors = 2; },
     status::malformed,
     {"tensor header"}},
    {"NoTensor", [](message_draft& m) { m.header.tensors = 0; }, status::malformed, {"one tensor", "0 tensors"}},
    {"TooManyParts", [](message_draft& m) { m.parts = 3; }, status::malformed, {"3 parts", "1 tensors"}},
    {"AThousandParts", [](message_draft& m) { m.parts = 1000; }, status::malformed, {"1000 parts"}},
    {"NoPayload",
     [](message_draft& m) {
       m.parts = 1;
       m.payload.clear();
     },
     status::wrong_shape,
     {"32 bytes", "has 0"}},
    {"NoTensorInOnePart",
     [](message_draft& m) {
       m.parts = 1;
       m.header.tensors = 0;
     },
     status::malformed,
     {"one tensor", "0 tensors"}},
    {"PayloadBehindTheHeadersTooShort",
     [](message_draft& m) {
       m.parts = 1;
       m.payload.pop_back();
     },
     status::wrong_shape,
     {"32 bytes", "has 31"}},
    {"PayloadBehindTheHeadersTooLong",
     [](message_draft& m) {
       m.parts = 1;
       m.payload += 'x';
     },
     status::wrong_shape,
     {"32 bytes", "has 33"}},
    {"PayloadBehindTheHeadersOverTheLimit",
     [](message_draft& m) {
       m.parts = 1;
       m.payload.assign(4097, 'x');
     },
     status::too_large,
     {"4097 bytes", "4096", "a part of its own"}},
    {"SharedInOnePart",
     [](message_draft& m) {
       m.parts = 1;
       m.header.type = wire::message_type::submit_shared;
     },
     status::malformed,
     {"SUBMIT_SHARED", "1 parts"}},
    {"NoFrames",
     [](message_draft& m) {
       m.header.frames = 0;
       m.tensor.shape = {0, 16};
       m.tensor.bytes = 0;
       m.payload.clear();
     },
     status::wrong_shape,
     {"at least one frame"}},
    {"TooManyFrames", [](message_draft& m) { m.header.frames = 5; }, status::too_large, {"5 frames", "at most 4"}},
    {"MostFramesThatTheHeaderHolds",
     [](message_draft& m) { m.header.frames = std::numeric_limits<std::uint32_t>::max(); },
     status::too_large,
     {"4294967295 frames"}},
    {"WrongType",
     [](message_draft& m) { m.tensor.type = wire::int8_type; },
     status::wrong_dtype,
     {"u8[max 16]", "uint8", "int8"}},
    {"UnknownType",
     [](message_draft& m) {
       m.tensor.type = {9, 8, 1};
     },
     status::wrong_shape,
     {"data type"}},
    {"LanesOfTwo",
     [](message_draft& m) {
       m.tensor.type = {1, 8, 2};
       m.tensor.bytes = 64;
       m.payload.resize(64);
     },
     status::wrong_shape,
     {"data type"}},
    {"OneDimensionTooFew",
     [](message_draft& m) {
       m.tensor.dimensions = 1;
       m.tensor.shape = {32};
     },
     status::wrong_shape,
     {"[2, 1 to 16]", "not [32]"}},
    {"OneDimensionTooMany",
     [](message_draft& m) {
       m.tensor.dimensions = 3;
       m.tensor.shape = {2, 16, 1};
     },
     status::wrong_shape,
     {"[2, 1 to 16]", "not [2, 16, 1]"}},
    {"NoDimensions",
     [](message_draft& m) {
       m.tensor.dimensions = 0;
       m.tensor.bytes = 1;
       m.payload = "x";
     },
     status::wrong_shape,
     {"not []"}},
    {"EightDimensions",
     [](message_draft& m) {
       m.tensor.dimensions = 8;
       m.tensor.shape = {2, 16, 1, 1, 1, 1, 1, 1};
     },
     status::wrong_shape,
     {"not [2, 16, 1, 1, 1, 1, 1, 1]"}},
    {"NineDimensions", [](message_draft& m) { m.tensor.dimensions = 9; }, status::wrong_shape, {"bad shape"}},
    {"AllDimensions", [](message_draft& m) { m.tensor.dimensions = 255; }, status::wrong_shape, {"bad shape"}},
    {"TheFramesOfTheTensorAreOthers",
     [](message_draft& m) {
       m.tensor.shape = {1, 16};
       m.tensor.bytes = 16;
       m.payload.resize(16);
     },
     status::wrong_shape,
     {"2 frames", "[2, 1 to 16]", "not [1, 16]"}},
    {"LeadingDimensionTooLong",
     [](message_draft& m) {
       m.tensor.shape = {2, 17};
       m.tensor.bytes = 34;
       m.payload.resize(34);
     },
     status::wrong_shape,
     {"for 2 frames the tensor's shape is [2, 1 to 16], not [2, 17]"}},
    {"LeadingDimensionOfNothing",
     [](message_draft& m) {
       m.tensor.shape = {2, 0};
       m.tensor.bytes = 0;
       m.payload.clear();
     },
     status::wrong_shape,
     {"not [2, 0]"}},
    {"NegativeExtent",
     [](message_draft& m) {
       m.tensor.shape = {2, -16};
     },
     status::wrong_shape,
     {"bad shape"}},
    {"LowestExtent",
     [](message_draft& m) {
       m.tensor.shape = {2, std::numeric_limits<std::int64_t>::min()};
     },
     status::wrong_shape,
     {"bad shape"}},
    {"OverflowThatComesOutRight",
     [](message_draft& m) {
       m.tensor.dimensions = 3;
       m.tensor.shape = {2, std::int64_t{1} << 62U, 4};
       m.tensor.bytes = 0;
     },
     status::wrong_shape,
     {"bad shape"}},
    {"SizeUnderTheShape", [](message_draft& m) { m.tensor.bytes = 31; }, status::wrong_shape, {"size"}},
    {"SizeOverTheShape", [](message_draft& m) { m.tensor.bytes = 33; }, status::wrong_shape, {"size"}},
    {"HugeSize",
     [](message_draft& m) { m.tensor.bytes = std::numeric_limits<std::uint64_t>::max(); },
     status::wrong_shape,
     {"size"}},
    {"PayloadShorterThanItsHeader",
     [](message_draft& m) { m.payload.resize(31); },
     status::wrong_shape,
     {"32 bytes", "has 31"}},
    {"PayloadLongerThanItsHeader",
     [](message_draft& m) { m.payload.resize(33); },
     status::wrong_shape,
     {"32 bytes", "has 33"}},
};

INSTANTIATE_TEST_SUITE_P(Submits, Refusal, ::testing::ValuesIn(refusals),
                         [](const ::testing::TestParamInfo<refusal_row>& row) { return std::string(row.param.name); });

// A SUBMIT of two frames of 12 steps to a session that has had 5, right unless a row changes it.
struct session_draft {
  wire::message_header header;
  plan pipeline = testing::hand_made_plan(0, {.shape = {16}, .variable = true, .keeps_state = true});
  plan another = testing::hand_made_plan(1);
  session_record session;
  bool found = true;
  std::int64_t leading = 12;

  session_draft() {
    header.session = 9;
    header.sequence = 5;
    header.frames = 2;
    pipeline.period = 4;
    session.number = 9;
    session.pipeline = &pipeline;
    session.frames = 5;
    session.closed = false;
  }
  [[nodiscard]] verdict judge() const { return check_session(header, found ? &session : nullptr, pipeline, leading); }
};

struct session_row {
  const char* name;
  std::function<void(session_draft&)> change;
  status expected;
  const char* reason;  // what the reason must name
};

class SessionAdmission : public ::testing::TestWithParam<session_row> {};

TEST_P(SessionAdmission, HasItsStatusAndNamesWhatIsWrong) {
  session_draft draft;
  GetParam().change(draft);
  const verdict made = draft.judge();
  EXPECT_EQ(wire::name_of(made.code), wire::name_of(GetParam().expected)) << made.reason();
  EXPECT_THAT(made.reason(), HasSubstr(GetParam().reason));
}

const session_row session_rows[] = {
    {"TheNextFrames", [](session_draft&) {}, status::ok, ""},
    {"NoSessionWhereStateIsKept", [](session_draft& d) { d.header.session = 0; }, status::session_required,
     "pipeline0"},
    {"NoSessionWhereNoneIsKept",
     [](session_draft& d) {
       d.header.session = 0;
       d.pipeline.keepers.clear();
     },
     status::ok, ""},
    {"ASessionWhereNoneIsKept", [](session_draft& d) { d.pipeline.keepers.clear(); }, status::ok, ""},
    {"ASessionThatIsNotThere", [](session_draft& d) { d.found = false; }, status::session_lost, "session 9"},
    {"ASessionOfAnotherPipeline", [](session_draft& d) { d.session.pipeline = &d.another; }, status::malformed,
     "pipeline1"},
    {"AGap", [](session_draft& d) { d.header.sequence = 8; }, status::sequence_gap, "5 to 7"},
    {"TheLargestSequence", [](session_draft& d) { d.header.sequence = ~std::uint64_t{0}; }, status::sequence_gap,
     "are missing"},
    {"WhatWasTakenBefore", [](session_draft& d) { d.header.sequence = 4; }, status::reply_gone, "frame 4"},
    {"SeveralFramesThatAreNoMultipleOfThePeriod", [](session_draft& d) { d.leading = 13; }, status::wrong_shape,
     "multiple of 4"},
    {"OneFrameOfAnyLength",
     [](session_draft& d) {
       d.leading = 13;
       d.header.frames = 1;
     },
     status::ok, ""},
    {"ALengthThatIsWrongBeforeAGapIsOne",
     [](session_draft& d) {
       d.leading = 13;
       d.header.sequence = 8;
     },
     status::wrong_shape, "multiple of 4"},
};

INSTANTIATE_TEST_SUITE_P(Rows, SessionAdmission, ::testing::ValuesIn(session_rows),
                         [](const ::testing::TestParamInfo<session_row>& row) { return std::string(row.param.name); });

class Credits : public ::testing::Test {
 protected:
  Credits() { client_.grant(4, 100, start); }
  client_record client_{0, "a", 4};
};

TEST_F(Credits, AreEnoughUpToTheLast) {
  client_.requests = 3;
  client_.bytes = 60;
  EXPECT_TRUE(check_credits(client_, 40).admitted());
}

TEST_F(Credits, EndWithTheRequestsGranted) {
  client_.requests = 4;
  const verdict said = check_credits(client_, 1);
  EXPECT_EQ(said.code, status::no_credit);
  EXPECT_THAT(said.reason(), HasSubstr("all 4 requests"));
}

TEST_F(Credits, EndWithTheBytesGranted) {
  client_.bytes = 60;
  const verdict said = check_credits(client_, 41);
  EXPECT_EQ(said.code, status::no_credit);
  EXPECT_THAT(said.reason(), HasSubstr("100 bytes"));
}

TEST_F(Credits, EndWithAsManyAbandonedRequests) {
  client_.abandoned_requests = 3;
  EXPECT_TRUE(check_abandoned(client_).admitted());
  client_.abandoned_requests = 4;
  const verdict said = check_abandoned(client_);
  EXPECT_EQ(said.code, status::no_credit);
  EXPECT_THAT(said.reason(), HasSubstr("4 requests that expired or were cancelled"));
}

TEST_F(Credits, EndWithMoreAbandonedBytes) {
  client_.abandoned_bytes = 100;
  EXPECT_TRUE(check_abandoned(client_).admitted());
  client_.abandoned_bytes = 101;
  EXPECT_EQ(check_abandoned(client_).code, status::no_credit);
}

TEST_F(Credits, GrowAtOnceWithAnotherWord) {
  client_.requests = 4;
  client_.grant(6, 200, start);
  EXPECT_TRUE(check_credits(client_, 1).admitted());
}

TEST_F(Credits, ShrinkOnlyWhenWhatWasUnderWayHasComeAndNothingIsInFlight) {
  client_.grant(2, 50, start);
  client_.requests = 3;
  client_.settle(start + std::chrono::seconds{60});
  EXPECT_TRUE(check_credits(client_, 100).admitted());
  client_.requests = 0;
  client_.settle(start + std::chrono::seconds{9});
  EXPECT_TRUE(check_credits(client_, 100).admitted());
  client_.settle(start + std::chrono::seconds{10});
  EXPECT_FALSE(check_credits(client_, 51).admitted());
}

TEST_F(Credits, AreNotWonByAnOverflow) {
  client_.grant(4, std::numeric_limits<std::size_t>::max(), start);
  client_.bytes = std::numeric_limits<std::size_t>::max() - 10;
  EXPECT_EQ(check_credits(client_, 11).code, status::no_credit);
}

}  // namespace
}  // namespace penstock
