#include <cstring>

#include <gmock/gmock.h>

#include "tests/client/client_fixtures.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using wire::message_type;

class Session : public session_fixture {};

TEST_F(Session, OpenNamesThePipelineAndTheSession) {
  connect();
  auto opening = begin_to_open();
  const received open = daemon_.expect(message_type::open_session);
  EXPECT_EQ(open.parts.at(1), R"({"pipeline":3,"name":"antenna"})");
  daemon_.opened(open, 5);
  const session opened = opening.get();
  EXPECT_EQ(opened.name(), "antenna");
  EXPECT_EQ(opened.pipeline(), "double");
  EXPECT_EQ(opened.frames(), 0U);
  EXPECT_FALSE(opened.ended());
}

TEST_F(Session, HasARandomNameWhereNoneIsGiven) {
  connect();
  const session one = open(5, "");
  const session two = open(6, "");
  EXPECT_THAT(std::string(one.name()), MatchesRegex("[0-9a-f]{16}"));
  EXPECT_NE(one.name(), two.name());
}

TEST_F(Session, OpenIsRepeatedUnderTheSameNameAfterSilence) {
  client_options options = quick_options();
  options.retry_after = 10ms;
  connect(options);
  auto opening = begin_to_open();
  const received first = daemon_.expect(message_type::open_session);
  const received second = daemon_.await(message_type::open_session);
  EXPECT_EQ(second.parts.at(1), first.parts.at(1));
  daemon_.opened(second, 5);
  EXPECT_EQ(opening.get().name(), "antenna");
}

TEST_F(Session, RefusedOpeningThrowsTheDaemonsReason) {
  connect();
  auto opening = begin_to_open();
  daemon_.error(daemon_.expect(message_type::open_session), wire::status::too_many_sessions, {"no room", "", "", ""});
  try {
    opening.get();
    FAIL() << "it was opened";
  } catch (const request_error& error) {
    EXPECT_EQ(error.status_name(), "TOO_MANY_SESSIONS");
    EXPECT_THAT(error.what(), HasSubstr("no room"));
  }
}

TEST_F(Session, OpeningExpiresWhenNobodyAnswers) {
  client_options options = quick_options();
  options.request_timeout = 10ms;
  connect(options);
  EXPECT_THROW((void)client_->open_session("double"), request_error);
}

TEST_F(Session, OpeningThrowsForAnUnknownPipelineOrABadName) {
  connect();
  EXPECT_THROW((void)client_->open_session("none"), request_error);
  EXPECT_THROW((void)client_->open_session("double", std::string(65, 'x')), request_error);
  EXPECT_THROW((void)client_->open_session("double", "a\nb"), request_error);
  settle();  // nothing was sent
}

TEST_F(Session, NameThatIsInUseIsRefused) {
  connect();
  const session one = open();
  EXPECT_THROW((void)client_->open_session("double", "antenna"), request_error);
  settle();
}

TEST_F(Session, NumbersFramesInTheOrderOfSubmission) {
  connect();
  session line = open();
  auto one = submit(line, 2);
  auto two = submit(line, 1);
  auto three = submit(line, 3);
  EXPECT_EQ(line.frames(), 6U);
  for (const std::uint64_t sequence : {0U, 2U, 3U}) {
    const received next = expect_submit(sequence);
    EXPECT_EQ(next.header.session, 5U);
    daemon_.result(next);
  }
  EXPECT_EQ(one.get().frames(), 2U);
  EXPECT_EQ(two.get().frames(), 1U);
  EXPECT_EQ(three.get().frames(), 3U);
}

TEST_F(Session, SessionsOfOneClientAreApart) {
  connect();
  session one = open(5, "one");
  session two = open(6, "two");
  auto first = submit(one);
  auto second = submit(two);
  const received of_one = expect_submit(0);
  const received of_two = expect_submit(0);
  EXPECT_EQ(of_one.header.session, 5U);
  EXPECT_EQ(of_two.header.session, 6U);
  daemon_.error(of_one, wire::status::session_lost);
  EXPECT_EQ(error_of(first).kind(), error_kind::session_lost);
  daemon_.result(of_two);
  EXPECT_EQ(second.get().frames(), 1U);
  EXPECT_TRUE(one.ended());
  EXPECT_FALSE(two.ended());
}

TEST_F(Session, CompletionMaySubmitTheNext) {
  connect();
  session line = open();
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  std::promise<void> second;
  line.submit(request, [&](outcome&&) { line.submit(request, [&](outcome&&) { second.set_value(); }); });
  daemon_.result(expect_submit(0));
  daemon_.result(expect_submit(1));
  second.get_future().wait();
}

TEST_F(Session, LengthsOfResultsAreTakenAsTheyCome) {
  daemon_.offer().pipelines[0].outputs = {{"slow", "i16", "i16", {4}, true, "fir"}};
  connect();
  session line = open();
  const auto answer = [&](std::uint64_t sequence, std::int64_t rows) {
    auto future = submit(line);
    const received sent = expect_submit(sequence);
    wire::message_header header = sent.header;
    header.type = message_type::result;
    const wire::tensor_header tensor{wire::int16_type, 2, static_cast<std::uint64_t>(rows) * 2, {1, rows}};
    daemon_.send(sent.peer, {header_part(header, {tensor}), std::string(static_cast<std::size_t>(rows) * 2, '\1')});
    return future;
  };
  EXPECT_THAT(answer(0, 3).get().output("slow").shape(), ElementsAre(1, 3));
  const result none = answer(1, 0).get();
  EXPECT_THAT(none.output("slow").shape(), ElementsAre(1, 0));
  EXPECT_TRUE(none.output("slow").to_vector<std::int16_t>().empty());
  auto too_long = answer(2, 5);
  settle();
  EXPECT_EQ(client_->counters().malformed_replies, 1U);
}

TEST_F(Session, CloseIsSentWhenNothingIsInFlightAnyMore) {
  connect();
  session line = open();
  auto future = submit(line);
  const received sent = expect_submit(0);
  line.close();
  EXPECT_EQ(refusal_of(line).kind(), error_kind::session_lost);
  settle();
  daemon_.result(sent);
  EXPECT_EQ(daemon_.expect(message_type::close_session).header.session, 5U);
  EXPECT_EQ(future.get().frames(), 1U);
}

TEST_F(Session, DestructionAndReplacementClose) {
  connect();
  std::optional<session> line = open(5, "one");
  *line = open(6, "two");
  EXPECT_EQ(daemon_.expect(message_type::close_session).header.session, 5U);
  line.reset();
  EXPECT_EQ(daemon_.expect(message_type::close_session).header.session, 6U);
}

TEST_F(Session, OpeningOfANameThatIsClosingWaitsForTheClose) {
  connect();
  session old = open(5);
  auto future = submit(old);
  const received sent = expect_submit(0);
  old.close();
  auto opening = begin_to_open();
  settle();
  daemon_.result(sent);
  EXPECT_EQ(daemon_.expect(message_type::close_session).header.session, 5U);
  daemon_.opened(daemon_.expect(message_type::open_session), 6);
  session line = opening.get();
  auto next = submit(line);
  EXPECT_EQ(expect_submit(0).header.session, 6U);
}

TEST_F(Session, BeginsAnewWhereTheDaemonStillHasAnOldOneOfTheName) {
  connect();
  auto opening = begin_to_open();
  daemon_.opened(daemon_.expect(message_type::open_session), 4, 17);
  EXPECT_EQ(daemon_.expect(message_type::close_session).header.session, 4U);
  daemon_.opened(daemon_.expect(message_type::open_session), 5, 0);
  session line = opening.get();
  auto future = submit(line);
  EXPECT_EQ(expect_submit(0).header.session, 5U);
}

}  // namespace

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using wire::message_type;

/// What a session does about gaps, silence, refusals and a daemon that goes away.
class SessionLoss : public session_fixture {};

TEST_F(SessionLoss, GoesOnOverAnotherConnectionInOrder) {
  connect();
  session line = open();
  auto one = submit(line);
  auto two = submit(line);
  (void)expect_submit(0);
  (void)expect_submit(1);
  daemon_.break_connections();
  daemon_.greet();
  daemon_.result(expect_submit(0));
  daemon_.result(expect_submit(1));
  EXPECT_EQ(one.get().frames() + two.get().frames(), 2U);
  EXPECT_FALSE(line.ended());
}

TEST_F(SessionLoss, EndsWhenTheDaemonHasGivenTheClientsPlaceAway) {
  connect();
  session line = open();
  auto one = submit(line);
  (void)expect_submit(0);
  daemon_.offer().resume = std::string(wire::resume_token_letters, '2');
  daemon_.break_connections();
  daemon_.greet();
  EXPECT_EQ(error_of(one).kind(), error_kind::session_lost);
  EXPECT_TRUE(line.ended());
  settle();
}

TEST_F(SessionLoss, GapIsFilledOnceAndInOrder) {
  connect();
  session line = open();
  auto one = submit(line, 2);
  auto two = submit(line);
  auto three = submit(line);
  const received first = expect_submit(0);
  const received second = expect_submit(2);
  const received third = expect_submit(3);
  daemon_.gap(second, 0);
  daemon_.gap(third, 0);
  for (const received& before : {first, second, third}) {
    const received again = expect_submit(before.header.sequence);
    EXPECT_EQ(again.header.request_id, before.header.request_id);
    EXPECT_EQ(again.parts.at(1), before.parts.at(1));
    daemon_.result(again);
  }
  settle();  // the second gap asked for nothing more
  EXPECT_EQ(one.get().frames(), 2U);
  EXPECT_EQ(two.get().frames(), 1U);
  EXPECT_EQ(three.get().frames(), 1U);
  EXPECT_EQ(client_->counters().sent_again, 3U);
  EXPECT_FALSE(line.ended());
}

TEST_F(SessionLoss, GapInTheMiddleLeavesTheRestAlone) {
  connect();
  session line = open();
  auto one = submit(line);
  auto two = submit(line);
  auto three = submit(line);
  const received first = expect_submit(0);
  (void)expect_submit(1);
  daemon_.gap(expect_submit(2), 1);
  daemon_.result(expect_submit(1));
  daemon_.result(expect_submit(2));
  daemon_.result(first);
  EXPECT_EQ(one.get().frames() + two.get().frames() + three.get().frames(), 3U);
}

TEST_F(SessionLoss, GapThatIsFilledSinceIsIgnored) {
  connect();
  session line = open();
  auto one = submit(line);
  auto two = submit(line);
  daemon_.result(expect_submit(0));
  const received second = expect_submit(1);
  one.get();
  daemon_.gap(second, 0);
  settle();
  EXPECT_FALSE(line.ended());
  daemon_.result(second);
  EXPECT_EQ(two.get().frames(), 1U);
}

TEST_F(SessionLoss, RequestWithoutRoomIsSentAgainInOrderAfterAPauseThatGrows) {
  connect();
  session line = open();
  auto one = submit(line, 1);
  auto two = submit(line, 2);
  auto three = submit(line, 3);
  const received first = expect_submit(0);
  received second = expect_submit(1);
  received third = expect_submit(3);
  for (const auto pause : {100ms, 200ms}) {
    const auto began = std::chrono::steady_clock::now();
    daemon_.error(second, wire::status::no_credit);
    daemon_.gap(third, 1);
    const received again = expect_submit(1);
    EXPECT_GE(std::chrono::steady_clock::now() - began, pause);
    EXPECT_EQ(again.header.request_id, second.header.request_id);
    EXPECT_EQ(again.parts.at(1), second.parts.at(1));
    second = again;
    third = expect_submit(3);
  }
  for (const received& each : {first, second, third}) {  // each of which the daemon has taken once
    daemon_.result(each);
  }
  settle();  // the gaps asked for nothing of their own
  EXPECT_EQ(one.get().frames(), 1U);
  EXPECT_EQ(two.get().frames(), 2U);
  EXPECT_EQ(three.get().frames(), 3U);
  EXPECT_EQ(client_->counters().sent_again, 4U);
  EXPECT_FALSE(line.ended());
}

TEST_F(SessionLoss, CancelOfARequestWithoutRoomGoesWithItsRepeat) {
  connect();
  session line = open();
  auto one = submit(line);
  const received refused = expect_submit(0);
  client_->cancel(refused.header.request_id);
  const received cancel = daemon_.expect(message_type::cancel);
  daemon_.error(refused, wire::status::no_credit);
  daemon_.error(cancel, wire::status::rejected);  // there is nothing to cancel yet
  const received again = expect_submit(0);
  EXPECT_EQ(daemon_.expect(message_type::cancel).header.request_id, refused.header.request_id);
  daemon_.error(again, wire::status::cancelled);
  EXPECT_EQ(error_of(one).kind(), error_kind::cancelled);
  EXPECT_FALSE(line.ended());
}

TEST_F(SessionLoss, RequestThatFindsNoRoomInTimeIsAHole) {
  client_options options = quick_options();
  options.expiry_grace = 1ms;
  connect(options);
  session line = open();
  auto one = submit(line, 1, 50ms);
  daemon_.error(expect_submit(0), wire::status::no_credit);
  EXPECT_EQ(error_of(one).kind(), error_kind::expired);
  EXPECT_FALSE(line.ended());
  auto two = submit(line);
  daemon_.gap(expect_submit(1), 0);
  EXPECT_EQ(error_of(two).kind(), error_kind::session_lost);
}

TEST_F(SessionLoss, GapOfARequestThatHasEndedLosesTheSession) {
  client_options options = quick_options();
  options.expiry_grace = 1ms;
  connect(options);
  session line = open();
  auto one = submit(line, 1, 5ms);
  (void)expect_submit(0);
  EXPECT_EQ(error_of(one).kind(), error_kind::expired);
  EXPECT_FALSE(line.ended());
  auto two = submit(line);
  daemon_.gap(expect_submit(1), 0);
  const request_error lost = error_of(two);
  EXPECT_EQ(lost.kind(), error_kind::session_lost);
  EXPECT_THAT(lost.what(), HasSubstr("frame 0 never reached the daemon"));
  EXPECT_EQ(daemon_.expect(message_type::close_session).header.session, 5U);
}

TEST_F(SessionLoss, RetriesAfterSilenceKeepTheirOrder) {
  client_options options = quick_options();
  options.retry_after = 20ms;
  connect(options);
  session line = open();
  daemon_.restart();  // so that all are sent in one go, when it is back
  daemon_.offer().instance = "first";
  auto one = submit(line);
  auto two = submit(line);
  auto three = submit(line);
  daemon_.greet();
  for (int round = 0; round < 3; ++round) {
    for (const std::uint64_t sequence : {0U, 1U, 2U}) {
      EXPECT_EQ(daemon_.await(message_type::submit).header.sequence, sequence);
    }
  }
}

TEST_F(SessionLoss, NewConnectionToTheSameDaemonRepeatsInOrder) {
  connect();
  session line = open();
  auto one = submit(line);
  auto two = submit(line);
  (void)expect_submit(0);
  (void)expect_submit(1);
  daemon_.restart();
  daemon_.offer().instance = "first";  // only the connection was lost
  auto three = submit(line);
  daemon_.greet();
  for (const std::uint64_t sequence : {0U, 1U, 2U}) {
    daemon_.result(expect_submit(sequence));
  }
  EXPECT_EQ(one.get().frames() + two.get().frames() + three.get().frames(), 3U);
}

TEST_F(SessionLoss, RestartEndsWhatIsInFlightAndLaterSubmits) {
  connect();
  session line = open();
  auto one = submit(line);
  auto two = submit(line);
  (void)expect_submit(0);
  (void)expect_submit(1);
  daemon_.restart();
  daemon_.greet();
  EXPECT_EQ(error_of(one).kind(), error_kind::session_lost);
  EXPECT_THAT(error_of(two).what(), HasSubstr("the daemon was restarted"));
  EXPECT_EQ(refusal_of(line).kind(), error_kind::session_lost);
  EXPECT_TRUE(line.ended());
  session next = open(1);  // under the same name
  auto future = submit(next);
  daemon_.result(expect_submit(0));
  EXPECT_EQ(future.get().frames(), 1U);
}

TEST_F(SessionLoss, SessionThatTheDaemonDroppedEndsEverything) {
  connect();
  session line = open();
  auto one = submit(line);
  auto two = submit(line);
  const received first = expect_submit(0);
  (void)expect_submit(1);
  daemon_.error(first, wire::status::session_lost, {"idle for too long", "", "", ""});
  EXPECT_THAT(error_of(one).what(), HasSubstr("idle for too long"));
  EXPECT_EQ(error_of(two).kind(), error_kind::session_lost);
  EXPECT_EQ(refusal_of(line).kind(), error_kind::session_lost);
  settle();  // there is nothing to close
}

TEST_F(SessionLoss, RefusedRequestKeepsItsErrorAndLosesTheSession) {
  connect();
  session line = open();
  auto one = submit(line);
  auto two = submit(line);
  const received first = expect_submit(0);
  (void)expect_submit(1);  // before the error, which would end it unsent
  daemon_.error(first, wire::status::failed, {"it broke", "", "fir", ""});
  EXPECT_EQ(error_of(one).status_name(), "FAILED");
  const request_error other = error_of(two);
  EXPECT_EQ(other.kind(), error_kind::session_lost);
  EXPECT_THAT(other.what(), HasSubstr("it broke"));
  EXPECT_EQ(daemon_.expect(message_type::close_session).header.session, 5U);
}

class SessionGoesOn : public session_fixture, public ::testing::WithParamInterface<wire::status> {};

TEST_P(SessionGoesOn, AfterARequestWhoseFramesTheDaemonHasTaken) {
  connect();
  session line = open();
  auto one = submit(line);
  auto two = submit(line);
  daemon_.error(expect_submit(0), GetParam());
  EXPECT_EQ(error_of(one).status(), static_cast<std::uint16_t>(GetParam()));
  daemon_.result(expect_submit(1));
  EXPECT_EQ(two.get().frames(), 1U);
  EXPECT_FALSE(line.ended());
}

INSTANTIATE_TEST_SUITE_P(Statuses, SessionGoesOn,
                         ::testing::Values(wire::status::expired, wire::status::cancelled, wire::status::reply_gone),
                         [](const auto& instance) { return std::string(wire::name_of(instance.param)); });

TEST_F(SessionLoss, RequestCancelledBeforeItIsSentIsSentAndThenCancelled) {
  connect();
  session line = open();
  daemon_.restart();
  daemon_.offer().instance = "first";
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  request.id = client_->reserve_id();
  auto future = line.submit(request);
  client_->cancel(request.id);
  daemon_.greet();
  const received sent = daemon_.await(message_type::submit);
  EXPECT_EQ(daemon_.expect(message_type::cancel).header.request_id, request.id);
  daemon_.error(sent, wire::status::cancelled);
  EXPECT_EQ(error_of(future).kind(), error_kind::cancelled);
  EXPECT_FALSE(line.ended());
}

}  // namespace

}  // namespace penstock::test
