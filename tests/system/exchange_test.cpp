// One daemon, real sockets: exactly one reply a request, whatever becomes of the request or of its client.

#include <cstring>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::testing {
namespace {

using wire::message_type;
using wire::status;

// "heavy" takes milliseconds a request on any machine, so that requests pile up behind one another.
constexpr const char* exchange_configuration = R"(config_version = 1
[device]
streams = 2
slots = 4
[clients]
credit_requests = 4
credit_bytes = "16 MiB"
[[pipeline]]
name = "power"
input = { dtype = "cu8", shape = [16] }
[[pipeline.stage]]
name = "iq"
op = "convert"
[[pipeline.stage]]
name = "power"
op = "magnitude"
squared = true
[[pipeline]]
name = "heavy"
input = { dtype = "cu8", shape = [65536] }
batch = { max_frames = 8 }
[[pipeline.stage]]
name = "iq"
op = "convert"
[[pipeline.stage]]
name = "psd"
op = "power_spectrum"
[[pipeline]]
name = "live"
input = { dtype = "cu8", shape = [65536] }
batch = { max_frames = 8 }
overflow = "drop-oldest"
[[pipeline.stage]]
name = "iq"
op = "convert"
[[pipeline.stage]]
name = "psd"
op = "power_spectrum"
)";

raw_submit heavy(std::uint64_t request_id, std::uint32_t pipeline = 1) {
  return raw_submit::of_iq(request_id, pipeline, 8, 65536, static_cast<char>(request_id));
}

class Exchange : public ::testing::TestWithParam<std::string> {
 protected:
  // Receives until every id in [first, last] has its reply; a second reply to one is a failure.
  static std::map<std::uint64_t, raw_message> replies(raw_peer& peer, std::uint64_t first, std::uint64_t last) {
    std::map<std::uint64_t, raw_message> got;
    while (got.size() < last - first + 1) {
      auto message = peer.receive();
      if (!message) {
        ADD_FAILURE() << "only " << got.size() << " replies came";
        break;
      }
      const std::uint64_t id = message->header.request_id;
      EXPECT_TRUE(got.emplace(id, std::move(*message)).second) << "request " << id << " was answered twice";
    }
    return got;
  }

  static void expect_balanced(raw_peer& peer) {
    const nlohmann::json counters = peer.status();
    EXPECT_TRUE(counters.at("balanced")) << counters.dump(1);
  }

  // Of cu8 samples, in float64.
  static void expect_power_of(const std::string& samples, const std::string& result) {
    ASSERT_EQ(result.size(), samples.size() / 2 * sizeof(float));
    for (std::size_t sample = 0; sample < samples.size() / 2; ++sample) {
      float power = 0;
      std::memcpy(&power, result.data() + sample * sizeof power, sizeof power);
      const double i = (static_cast<unsigned char>(samples[2 * sample]) - 127.5) / 127.5;
      const double q = (static_cast<unsigned char>(samples[2 * sample + 1]) - 127.5) / 127.5;
      EXPECT_NEAR(power, i * i + q * q, 1e-6) << "sample " << sample;
    }
  }

  daemon_process daemon_{{.backend = GetParam(), .completion = "callback", .configuration = exchange_configuration}};
  raw_peer peer_{daemon_.endpoint()};
};

TEST_P(Exchange, WelcomeDescribesEveryPipelineAsItTravels) {
  const wire::welcome welcome = peer_.hello();
  ASSERT_EQ(welcome.pipelines.size(), 3U);
  EXPECT_EQ(welcome.credit_requests, 4U);
  EXPECT_EQ(welcome.pipelines[0].input.element, "cu8");
  EXPECT_EQ(welcome.pipelines[0].input.dtype, "u8");
  EXPECT_EQ(welcome.pipelines[0].input.shape, (std::vector<std::int64_t>{16, 2}));
  ASSERT_EQ(welcome.pipelines[1].outputs.size(), 1U);
  EXPECT_EQ(welcome.pipelines[1].outputs[0].op, "power_spectrum");
}

TEST_P(Exchange, ResultIsTheArithmeticOfTheFrame) {
  peer_.hello();
  raw_submit submit = raw_submit::of_iq(3, 0, 2, 16, '\0');
  for (std::size_t index = 0; index < submit.payload.size(); ++index) {
    submit.payload[index] = static_cast<char>(index * 37);
  }
  submit.header.trace_id[5] = std::byte{42};
  peer_.send(submit.parts());
  const auto answer = peer_.receive();
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->header.type, message_type::result);
  EXPECT_EQ(answer->header.frames, 2U);
  EXPECT_EQ(answer->header.trace_id[5], std::byte{42});
  expect_power_of(submit.payload, answer->parts.at(1));
}

TEST_P(Exchange, SmallPayloadsGoAndComeInOnePart) {
  ASSERT_EQ(peer_.hello(2 * 16 * sizeof(float)).inline_bytes, 4096U);
  for (std::uint64_t id = 1; id <= 20; ++id) {
    const raw_submit submit =
        raw_submit::of_iq(id, 0, 1 + static_cast<std::uint32_t>(id % 3), 16, static_cast<char>(11 * id));
    peer_.send(id % 2 == 0 ? submit.parts() : submit.in_one_part());
    const auto answer = peer_.receive();
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->header.type, message_type::result);
    ASSERT_EQ(answer->parts.size(), id % 3 < 2 ? 1U : 2U);
    expect_power_of(submit.payload, id % 3 < 2 ? answer->behind() : answer->parts[1]);
  }
  expect_balanced(peer_);
}

TEST_P(Exchange, UnknownClientMustSayHelloFirst) {
  peer_.send(heavy(1).parts());
  const auto answer = peer_.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.code, status::hello_required);
  EXPECT_EQ(answer->header.request_id, 1U);
}

TEST_P(Exchange, WithinCreditsNothingIsRefusedAndBeyondThemOnlyTheSurplusIs) {
  peer_.hello();
  for (std::uint64_t id = 1; id <= 4; ++id) {
    peer_.send(heavy(id).parts());
  }
  for (const auto& [id, reply] : replies(peer_, 1, 4)) {
    EXPECT_EQ(reply.header.type, message_type::result) << "request " << id;
  }
  // A quick device keeps up with a slow sender: then another burst.
  int refused = 0;
  for (std::uint64_t first = 101; refused == 0 && first < 4101; first += 40) {
    for (std::uint64_t id = first; id < first + 40; ++id) {
      peer_.send(heavy(id).parts());
    }
    int results = 0;
    for (const auto& [id, reply] : replies(peer_, first, first + 39)) {
      results += reply.header.type == message_type::result ? 1 : 0;
      refused += reply.header.code == status::no_credit ? 1 : 0;
    }
    EXPECT_EQ(results + refused, 40);
    EXPECT_GE(results, 4);
  }
  EXPECT_GE(refused, 1);
  expect_balanced(peer_);
}

TEST_P(Exchange, DropOldestKeepsTheNewestAndAnswersWhatItDropped) {
  peer_.hello();
  for (std::uint64_t id = 1; id <= 60; ++id) {
    peer_.send(heavy(id, 2).parts());
  }
  int results = 0;
  for (const auto& [id, reply] : replies(peer_, 1, 60)) {
    const bool done = reply.header.type == message_type::result;
    results += done ? 1 : 0;
    EXPECT_TRUE(done || reply.header.code == status::overflow || reply.header.code == status::no_credit);
  }
  EXPECT_GE(results, 4);
  const nlohmann::json counters = peer_.status();
  EXPECT_TRUE(counters.at("balanced"));
  EXPECT_EQ(counters.at("requests").at("results"), results);
}

TEST_P(Exchange, ExpiredComesBeforeTheResultAndNamesTheStep) {
  peer_.hello();
  raw_submit late = heavy(1);
  late.header.timeout_ns = 1;
  peer_.send(late.parts());
  const auto answer = peer_.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.code, status::expired);
  EXPECT_THAT(answer->json().at("step").get<std::string>(), ::testing::AnyOf("queued", "batched", "executing"));
  peer_.send(heavy(2).parts());
  const auto next = peer_.receive();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->header.request_id, 2U) << "the expired request was answered a second time";
  EXPECT_EQ(next->header.type, message_type::result);
  expect_balanced(peer_);
}

TEST_P(Exchange, CancelIsTheOneReplyOfItsRequest) {
  peer_.hello();
  // The result may win the race now and then; that CANCEL is then told that there is no such request any more.
  std::uint64_t id = 1;
  bool cancelled = false;
  for (; !cancelled && id <= 50; ++id) {
    peer_.send(heavy(id).parts());
    peer_.send_control(message_type::cancel, id);
    const auto answer = peer_.receive();
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->header.request_id, id);
    cancelled = answer->header.code == status::cancelled;
    if (!cancelled) {
      ASSERT_EQ(answer->header.type, message_type::result);
      const auto late = peer_.receive();
      ASSERT_TRUE(late);
      ASSERT_EQ(late->header.code, status::rejected);
    }
  }
  EXPECT_TRUE(cancelled);
  peer_.send(heavy(id).parts());
  const auto next = peer_.receive();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->header.request_id, id) << "the cancelled request was answered a second time";
  expect_balanced(peer_);
}

TEST_P(Exchange, RepeatedIdIsAnsweredFromTheCacheAndNotRunAgain) {
  peer_.hello();
  const raw_submit submit = raw_submit::of_iq(9, 0, 1, 16, 'a');
  peer_.send(submit.parts());
  const auto first = peer_.receive();
  peer_.send(submit.parts());
  const auto again = peer_.receive();
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->parts, again->parts);
  const nlohmann::json counters = peer_.status();
  EXPECT_EQ(counters.at("requests").at("accepted"), 1);
  EXPECT_EQ(counters.at("repeats").at("answered"), 1);
}

TEST_P(Exchange, ClientThatVanishesInTheMiddleDisturbsNobody) {
  peer_.hello();
  for (int round = 0; round < 10; ++round) {
    raw_peer vanishing(daemon_.endpoint());
    vanishing.hello();
    for (std::uint64_t id = 1; id <= 4; ++id) {
      vanishing.send(heavy(id).parts());
    }
    // Its last message may or may not arrive; it is gone before any reply.
    EXPECT_TRUE(vanishing.status().contains("requests"));
  }
  // A connection that breaks off inside a ZeroMQ greeting, and one inside a frame.
  for (const std::string& half : {std::string("\xFF\x00\x00", 3), std::string(64, '\xFF')}) {
    const int raw = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = daemon_.endpoint().substr(std::strlen("ipc://"));
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::connect(raw, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::send(raw, half.data(), half.size(), MSG_NOSIGNAL), static_cast<ssize_t>(half.size()));
    ::close(raw);
  }
  for (std::uint64_t id = 1; id <= 4; ++id) {
    peer_.send(heavy(id).parts());
  }
  for (const auto& [id, reply] : replies(peer_, 1, 4)) {
    EXPECT_EQ(reply.header.type, message_type::result) << "request " << id;
  }
  expect_balanced(peer_);
}

INSTANTIATE_TEST_SUITE_P(Backend, Exchange, ::testing::ValuesIn(backends_to_test()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace penstock::testing
