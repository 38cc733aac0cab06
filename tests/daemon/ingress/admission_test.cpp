#include "daemon/ingress/admission.hpp"

#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/control.hpp"
#include "tests/daemon/ingress/message_draft.hpp"
#include "tests/support/hand_made_plan.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using testing::judge;
using testing::judgement;
using testing::message_draft;
using wire::status;

TEST(Admission, AdmitsARightSubmit) {
  const plan pipeline = testing::hand_made_plan(0, {.shape = {16}, .variable = true, .max_frames = 4});
  const judgement made = judge({}, pipeline);
  EXPECT_TRUE(made.said.admitted()) << made.said.reason();
  EXPECT_EQ(made.what.leading, 16);
  EXPECT_EQ(made.header.request_id, 5U);
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

}  // namespace
}  // namespace penstock
