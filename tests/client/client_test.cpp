#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <penstock/client.hpp>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cpp/catalogue.hpp"
#include "client/cpp/credit_window.hpp"
#include "tests/client/client_fixtures.hpp"
#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {
namespace {

using ForkedClient = session_fixture;

/// The signals that the thread of that name blocks, a bit each, the first for signal 1; 0 when there is no such thread.
std::uint64_t blocked_by(const std::string& name) {
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(each.path() / "status");
    std::string word;
    if (!(status >> word >> word) || word != name) {
      continue;
    }
    while (status >> word && word != "SigBlk:") {
    }
    std::uint64_t blocked = 0;
    status >> std::hex >> blocked;
    return blocked;
  }
  return 0;
}

// Whatever handlers the program has run on its own threads, and cut no call of ZeroMQ's short.
TEST(ClientThread, LeavesSignalsToTheProgram) {
  scripted_daemon daemon;
  std::future<received> greeting = std::async(std::launch::async, [&daemon] { return daemon.greet(); });
  client_options options;
  options.url = daemon.url();
  const client connected{options};
  greeting.get();
  const std::uint64_t blocked = blocked_by("penstock");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1, SIGPROF}) {
    EXPECT_NE(blocked & (std::uint64_t{1} << static_cast<unsigned>(signal - 1)), 0U) << signal;
  }
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    EXPECT_EQ(blocked & (std::uint64_t{1} << static_cast<unsigned>(fault - 1)), 0U) << fault;
  }
  sigset_t own;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &own), 0);
  EXPECT_EQ(sigismember(&own, SIGUSR1), 0);
}

TEST(ClientThread, OutlivesCompletionsThatThrow) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  request.release = [] { throw std::runtime_error("of the caller's"); };
  connected->submit("double", request, [](outcome&&) { throw std::runtime_error("of the caller's"); });
  request.release = nullptr;
  daemon.result(daemon.expect(wire::message_type::submit));
  auto next = connected->submit("double", request);
  daemon.result(daemon.expect(wire::message_type::submit));
  next.get();
  EXPECT_EQ(connected->counters().thrown, 1U);
}

/// What a call in a forked child throws, or that it throws nothing, or hangs.
template <class Call>
std::string in_child(Call&& call) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    std::string said = "nothing was thrown";
    try {
      call();
    } catch (const std::exception& error) {
      said = error.what();
    }
    [[maybe_unused]] const auto written = ::write(ends[1], said.data(), said.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said(4096, '\0');
  const auto taken = ::read(ends[0], said.data(), said.size());
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return taken > 0 ? said.substr(0, static_cast<std::size_t>(taken)) : "it hangs";
}

TEST_F(ForkedClient, RefusesEveryCallInTheChildAndServesTheParent) {
  connect();
  session line = open();
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  using ::testing::HasSubstr;
  const std::string reason = "which forked this one: make a client here";
  EXPECT_THAT(in_child([&] { (void)line.submit(request); }), HasSubstr(reason));
  EXPECT_THAT(in_child([&] { (void)line.run(bytes); }), HasSubstr(reason));
  EXPECT_THAT(in_child([&] { (void)client_->submit("double", request); }), HasSubstr(reason));
  EXPECT_THAT(in_child([&] { (void)client_->ping(); }), HasSubstr(reason));
  EXPECT_THAT(in_child([&] { (void)client_->status_json(); }), HasSubstr(reason));
  EXPECT_THAT(in_child([&] { (void)client_->open_session("double"); }), HasSubstr(reason));
  EXPECT_THAT(in_child([&] { client_->cancel(1); }), HasSubstr(reason));
  EXPECT_THAT(in_child([&] { (void)client_->lend(64); }), HasSubstr(reason));
  EXPECT_EQ(in_child([&] { line.close(); }), "nothing was thrown");
  EXPECT_EQ(in_child([&] { client_.reset(); }), "nothing was thrown");
  settle();
  auto future = submit(line);
  daemon_.result(expect_submit(0));
  future.get();
}

}  // namespace

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
  wire::pipeline_description wide;
  wide.id = 2;
  wide.name = "counts";
  wide.max_frames = 4;
  wide.input = {"input", "i64", "i64", {2}, false, ""};
  wire::pipeline_description later;
  later.id = 3;
  later.name = "later";
  later.max_frames = 4;
  later.input = {"input", "f8", "f8", {8}, false, ""};
  offer.pipelines = {fixed, variable, wide, later};
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

void PrintTo(const check_case& tested, std::ostream* out) {
  *out << tested.name;
}

class RequestCheck : public ::testing::TestWithParam<check_case> {};

TEST_P(RequestCheck, TakesOnlyWhatThePipelineTakes) {
  const link::catalogue catalogue{offer()};
  const check_case& tested = GetParam();
  const std::vector<std::byte> bytes(tested.bytes);
  client::request request;
  request.bytes = bytes;
  request.frames = tested.frames;
  request.leading = tested.leading;
  if (tested.status == nullptr) {
    EXPECT_EQ(catalogue.check(tested.pipeline, request, false)->name, tested.pipeline);
    return;
  }
  try {
    (void)catalogue.check(tested.pipeline, request, false);
    FAIL() << "it was taken";
  } catch (const request_error& error) {
    EXPECT_EQ(error.status_name(), tested.status);
    EXPECT_THAT(error.what(), HasSubstr(tested.text));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Requests, RequestCheck,
    ::testing::Values(check_case{"OneFrame", "iq", 12, 1, 0, nullptr, ""},
                      check_case{"MostFrames", "iq", 48, 4, 0, nullptr, ""},
                      check_case{"LeadingNamedThoughFixed", "iq", 12, 1, 3, nullptr, ""},
                      check_case{"FullVariable", "voice", 32, 1, 0, nullptr, ""},
                      check_case{"ShortVariable", "voice", 24, 2, 3, nullptr, ""},
                      check_case{"UnknownListsOthers", "none", 12, 1, 0, "UNKNOWN_PIPELINE", "iq, voice, counts"},
                      check_case{"ElementsOfEightBytes", "counts", 32, 2, 0, nullptr, ""},
                      check_case{"DtypeOfALaterDaemon", "later", 8, 1, 0, "WRONG_DTYPE",
                                 "takes \"f8\", which this client"},
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

namespace {

using namespace std::chrono_literals;
using answer = link::credit_window::answer;
using wire::message_type;

link::time_point soon() {
  return std::chrono::steady_clock::now() + 5ms;
}

TEST(CreditWindow, GivesAsManyRequestsAsWereGranted) {
  link::credit_window gate;
  gate.grant(2, 100);
  EXPECT_EQ(gate.try_take(1), answer::taken);
  EXPECT_EQ(gate.try_take(1), answer::taken);
  EXPECT_EQ(gate.try_take(1), answer::none_left);
  gate.give_back(1);
  EXPECT_EQ(gate.try_take(1), answer::taken);
}

TEST(CreditWindow, GivesAsManyBytesAsWereGranted) {
  link::credit_window gate;
  gate.grant(10, 100);
  EXPECT_EQ(gate.try_take(60), answer::taken);
  EXPECT_EQ(gate.try_take(41), answer::none_left);
  EXPECT_EQ(gate.try_take(40), answer::taken);
}

TEST(CreditWindow, RefusesAtOnceWhatCanNeverBe) {
  link::credit_window gate;
  EXPECT_EQ(gate.take(1, link::never), answer::never_enough);
  gate.grant(10, 100);
  EXPECT_EQ(gate.take(101, link::never), answer::never_enough);
}

TEST(CreditWindow, WaitsNoLongerThanTheDeadline) {
  link::credit_window gate;
  gate.grant(1, 100);
  EXPECT_EQ(gate.take(1, soon()), answer::taken);
  EXPECT_EQ(gate.take(1, soon()), answer::none_left);
}

TEST(CreditWindow, SmallerGrantHoldsBackUntilEnoughCameBack) {
  link::credit_window gate;
  gate.grant(3, 100);
  for (int each = 0; each < 3; ++each) {
    ASSERT_EQ(gate.try_take(1), answer::taken);
  }
  gate.grant(2, 100);
  gate.give_back(1);
  EXPECT_EQ(gate.try_take(1), answer::none_left);
  gate.give_back(1);
  EXPECT_EQ(gate.try_take(1), answer::taken);
}

TEST(CreditWindow, NotifyingWakesAWaitingThread) {
  link::credit_window gate;
  gate.grant(1, 100);
  ASSERT_EQ(gate.try_take(1), answer::taken);
  auto waiting = std::async(std::launch::async, [&gate] { return gate.take(1, link::never); });
  gate.give_back(1);
  gate.notify_waiting();
  EXPECT_EQ(waiting.get(), answer::taken);
}

TEST(CreditWindow, ManyReturnedCreditsWakeAWaitingThreadByThemselves) {
  link::credit_window gate;
  gate.grant(100, 100);
  for (int each = 0; each < 100; ++each) {
    ASSERT_EQ(gate.try_take(1), answer::taken);
  }
  auto waiting = std::async(std::launch::async, [&gate] { return gate.take(1, link::never); });
  for (int each = 0; each < 100; ++each) {
    gate.give_back(1);
  }
  EXPECT_EQ(waiting.get(), answer::taken);
}

TEST(CreditWindow, ClosingWakesWhoWaits) {
  link::credit_window gate;
  gate.grant(1, 100);
  ASSERT_EQ(gate.try_take(1), answer::taken);
  auto waiting = std::async(std::launch::async, [&gate] { return gate.take(1, link::never); });
  gate.close();
  EXPECT_EQ(waiting.get(), answer::closed);
}

class Credits : public client_fixture {
 protected:
  Credits() {
    bytes_ = counting_bytes(2);
    request_.bytes = bytes_;
    request_.frames = 2;
  }
  void connect(std::uint32_t requests, std::uint64_t bytes) {
    daemon_.offer().credit_requests = requests;
    daemon_.offer().credit_bytes = bytes;
    client_fixture::connect();
  }

  std::vector<std::byte> bytes_;
  client::request request_;
};

TEST_F(Credits, SubmitWaitsUntilAReplyGivesCreditBack) {
  connect(2, 1000);
  auto one = client_->submit("double", request_);
  auto two = client_->submit("double", request_);
  EXPECT_FALSE(client_->try_submit("double", request_).has_value());
  auto three = std::async(std::launch::async, [this] { return client_->submit("double", request_).get(); });
  const received first = daemon_.expect(message_type::submit);
  const received second = daemon_.expect(message_type::submit);
  daemon_.error(first, wire::status::expired);
  const received third = daemon_.expect(message_type::submit);
  daemon_.result(second);
  daemon_.result(third);
  EXPECT_THROW(one.get(), request_error);
  EXPECT_EQ(two.get().frames(), 2U);
  EXPECT_EQ(three.get().frames(), 2U);
}

TEST_F(Credits, BytesAreHeldBackToo) {
  connect(10, 15);
  auto one = client_->submit("double", request_);
  EXPECT_FALSE(client_->try_submit("double", request_).has_value());
  daemon_.result(daemon_.expect(message_type::submit));
  one.get();
  EXPECT_TRUE(client_->try_submit("double", request_).has_value());
}

TEST_F(Credits, NoCreditWithinTheTimeoutIsAnExpiry) {
  connect(1, 1000);
  auto one = client_->submit("double", request_);
  request_.timeout = 5ms;
  try {
    auto two = client_->submit("double", request_);
    FAIL() << "there was credit";
  } catch (const request_error& error) {
    EXPECT_EQ(error.kind(), error_kind::expired);
  }
}

TEST_F(Credits, RequestLargerThanAllCreditIsRefusedAtOnce) {
  connect(10, 7);
  try {
    auto never = client_->submit("double", request_);
    FAIL() << "it was taken";
  } catch (const request_error& error) {
    EXPECT_EQ(error.status_name(), "TOO_LARGE");
  }
}

TEST_F(Credits, LocalExpiryGivesCreditBack) {
  daemon_.offer().credit_requests = 1;
  client_options options = quick_options();
  options.expiry_grace = 1ms;
  client_ = daemon_.connect(options);
  request_.timeout = 5ms;
  auto one = client_->submit("double", request_);
  EXPECT_THROW(one.get(), request_error);
  request_.timeout = 20s;
  auto two = client_->submit("double", request_);
  (void)daemon_.expect(message_type::submit);
  daemon_.result(daemon_.expect(message_type::submit));
  EXPECT_EQ(two.get().frames(), 2U);
}

}  // namespace

namespace {

using namespace std::chrono_literals;
using wire::message_type;

TEST(Trace, CarriesTheCursorAndBringsTheNext) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  auto asked = std::async(std::launch::async, [&] { return connected->trace(41, 20s); });
  const received question = daemon.expect(message_type::get_trace);
  EXPECT_EQ(question.header.sequence, 41U);
  wire::message_header header;
  header.type = message_type::trace_report;
  header.request_id = question.header.request_id;
  header.sequence = 44;
  daemon.send(question.peer, {header_part(header), R"({"batches":[{},{},{}]})"});
  const trace_page page = asked.get();
  EXPECT_EQ(page.json, R"({"batches":[{},{},{}]})");
  EXPECT_EQ(page.next_cursor, 44U);
}

TEST(Trace, TakesNoOtherAnswer) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  auto asked = std::async(std::launch::async, [&] { return connected->trace(0, 20s); });
  const received question = daemon.expect(message_type::get_trace);
  EXPECT_EQ(question.header.sequence, 0U);
  wire::message_header header;
  header.type = message_type::status_report;
  header.request_id = question.header.request_id;
  daemon.send(question.peer, {header_part(header), "{}"});
  header.type = message_type::trace_report;
  daemon.send(question.peer, {header_part(header), R"({"batches":[]})"});
  EXPECT_EQ(asked.get().json, R"({"batches":[]})");
  EXPECT_EQ(connected->counters().malformed_replies, 1U);
}

}  // namespace

}  // namespace penstock::test
