#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/ingress/admission.hpp"
#include "tests/support/hand_made_plan.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using wire::status;

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

}  // namespace
}  // namespace penstock
