#include <cstring>

#include <gmock/gmock.h>

#include "tests/client/session_rig.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using wire::message_type;

class Session : public session_rig {};

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
    daemon_.send(sent.from, {header_part(header, {tensor}), std::string(static_cast<std::size_t>(rows) * 2, '\1')});
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
}  // namespace penstock::test
