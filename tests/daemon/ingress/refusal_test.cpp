// Each thing that can be wrong with a SUBMIT.

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/ingress/message_draft.hpp"
#include "tests/support/hand_made_plan.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using testing::judge;
using testing::judgement;
using testing::message_draft;
using wire::status;

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

}  // namespace
}  // namespace penstock
