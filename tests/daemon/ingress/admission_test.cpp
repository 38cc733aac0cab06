#include "daemon/ingress/admission.hpp"

#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/hand_made_plan.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using wire::status;

// A SUBMIT of two frames for a pipeline of u8[max 16], right unless a row changes it, and what it costs to be wrong.
struct message_draft {
  wire::message_header header;
  wire::tensor_header tensor;
  std::string payload = std::string(32, 'x');
  std::size_t parts = 2;
  std::size_t extra_bytes = 0;  // of further parts
  std::size_t head_bytes = wire::part_bytes(1);
  bool break_magic = false;

  message_draft() {
    header.type = wire::message_type::submit;
    header.request_id = 5;
    header.tensors = 1;
    header.frames = 2;
    tensor.type = wire::uint8_type;
    tensor.dimensions = 2;
    tensor.shape = {2, 16};
    tensor.bytes = 32;
  }
};

struct refusal_row {
  const char* name;
  std::function<void(message_draft&)> change;
  status expected;
  std::vector<std::string> reason;  // what the reason must name
};

// Judges as reception does: the header first, then the SUBMIT. The head lies at an odd address, as it may.
struct judgement {
  verdict said;
  wire::message_header header;
  submitted what;
};
judgement judge(const message_draft& draft, const plan& pipeline, const client_settings& limits = {}) {
  std::string head(wire::part_bytes(1) + 1, '\0');
  wire::encode(draft.header, std::as_writable_bytes(std::span(head)).subspan(1));
  const std::size_t tensor_at = 1 + wire::header_bytes;
  wire::encode(draft.tensor, std::as_writable_bytes(std::span(head)).subspan(tensor_at));
  if (draft.break_magic) {
    head[1] = 'Q';
  }
  head.resize(1 + draft.head_bytes, '\0');
  incoming message;
  message.head = std::as_bytes(std::span(head)).subspan(1);
  message.body = std::as_bytes(std::span(draft.payload));
  message.parts = draft.parts;
  message.bytes = draft.payload.size() + draft.extra_bytes;
  judgement made;
  made.said = read_header(message, limits, made.header);
  if (made.said.admitted()) {
    made.said = check_submit(message, made.header, pipeline, made.what);
  }
  return made;
}

class Refusal : public ::testing::TestWithParam<refusal_row> {
 protected:
  static plan variable_plan() { return testing::hand_made_plan(0, {.shape = {16}, .variable = true, .max_frames = 4}); }
};

TEST_P(Refusal, HasItsStatusAndNamesWhatIsWrong) {
  message_draft draft;
  GetParam().change(draft);
  const judgement made = judge(draft, variable_plan());
  EXPECT_EQ(made.said.code, GetParam().expected) << made.said.reason;
  for (const std::string& each : GetParam().reason) {
    EXPECT_THAT(made.said.reason, HasSubstr(each));
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
     status::malformed,
     {"1 parts"}},
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
     {"[2, 16]", "not [32]"}},
    {"OneDimensionTooMany",
     [](message_draft& m) {
       m.tensor.dimensions = 3;
       m.tensor.shape = {2, 16, 1};
     },
     status::wrong_shape,
     {"[2, 16]", "not [2, 16, 1]"}},
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
     {"2 frames", "[2, 16]", "not [1, 16]"}},
    {"LeadingDimensionTooLong",
     [](message_draft& m) {
       m.tensor.shape = {2, 17};
       m.tensor.bytes = 34;
       m.payload.resize(34);
     },
     status::wrong_shape,
     {"or shorter", "not [2, 17]"}},
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

TEST(Admission, AdmitsARightSubmit) {
  const plan pipeline = testing::hand_made_plan(0, {.shape = {16}, .variable = true, .max_frames = 4});
  const judgement made = judge({}, pipeline);
  EXPECT_TRUE(made.said.admitted()) << made.said.reason;
  EXPECT_EQ(made.what.leading, 16);
  EXPECT_EQ(made.header.request_id, 5U);
}

TEST(Admission, AdmitsAShorterLeadingDimensionWhereItVaries) {
  message_draft draft;
  draft.tensor.shape = {2, 1};
  draft.tensor.bytes = 2;
  draft.payload.resize(2);
  const judgement made = judge(draft, testing::hand_made_plan(0, {.shape = {16}, .variable = true}));
  EXPECT_TRUE(made.said.admitted()) << made.said.reason;
  EXPECT_EQ(made.what.leading, 1);
  const judgement fixed = judge(draft, testing::hand_made_plan(0, {.shape = {16}}));
  EXPECT_EQ(fixed.said.code, status::wrong_shape);
  EXPECT_THAT(fixed.said.reason, ::testing::Not(HasSubstr("shorter")));
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
  EXPECT_THAT(made.said.reason, HasSubstr("33 bytes"));
  EXPECT_THAT(made.said.reason, HasSubstr("at most 32"));
}

TEST(Admission, RefusesAControlMessageWithALargeBody) {
  message_draft draft;
  draft.header.type = wire::message_type::hello;
  draft.header.tensors = 0;
  draft.payload.assign(wire::max_body_bytes + 1, 'x');
  const judgement made = judge(draft, testing::hand_made_plan(0));
  EXPECT_EQ(made.said.code, status::too_large);
  EXPECT_THAT(made.said.reason, HasSubstr("65537 bytes"));
}

}  // namespace
}  // namespace penstock
