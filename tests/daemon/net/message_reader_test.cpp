#include "daemon/net/message_reader.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "proto/message.hpp"

namespace penstock {
namespace {

// A router, and a dealer that is called "dealer".
class MessageReader : public ::testing::Test {
 protected:
  MessageReader() {
    dealer_.set(zmq::sockopt::linger, 0);
    dealer_.set(zmq::sockopt::routing_id, "dealer");
    dealer_.connect(router_.endpoints().front());
  }

  void send(const std::vector<std::string>& parts) {
    for (std::size_t index = 0; index < parts.size(); ++index) {
      (void)dealer_.send(zmq::buffer(parts[index]),
                         index + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  }
  // Blocks until a message is there.
  incoming receive() {
    for (;;) {
      if (const std::optional<incoming> message = in_.receive()) {
        return *message;
      }
      zmq::pollitem_t item{router_.get().handle(), 0, ZMQ_POLLIN, 0};
      if (zmq::poll(&item, 1, std::chrono::seconds{20}) == 0) {
        throw std::runtime_error("no message came");
      }
    }
  }
  static std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  router_socket router_{{{"tcp://127.0.0.1:*"}, 1U << 20U}};
  payload_store parked_;
  message_reader in_{router_, parked_};
  zmq::context_t context_;
  zmq::socket_t dealer_{context_, zmq::socket_type::dealer};
};

TEST_F(MessageReader, HasNothingBeforeAMessage) {
  EXPECT_FALSE(in_.receive());
}

TEST_F(MessageReader, HandsOverHeadAndBody) {
  send({"the head", "the body"});
  const incoming message = receive();
  EXPECT_EQ(message.identity, "dealer");
  EXPECT_EQ(text_of(message.head), "the head");
  EXPECT_EQ(text_of(message.body), "the body");
  EXPECT_EQ(message.parts, 2U);
  EXPECT_EQ(message.bytes, 8U);
  EXPECT_FALSE(in_.receive());
}

TEST_F(MessageReader, KnowsTheConnectionAlsoWhereTheSocketWasPolledBefore) {
  send({"head"});
  send({"head"});
  const int connection = receive().connection.descriptor;
  EXPECT_GE(connection, 0);
  while (!router_.readable()) {
  }
  const std::optional<incoming> message = in_.receive();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->connection.descriptor, connection);
  EXPECT_FALSE(message->within_process());
}

TEST_F(MessageReader, HasNoBodyOfTheMessageBefore) {
  send({"head", "body"});
  send({"only head"});
  (void)receive();
  const incoming message = receive();
  EXPECT_EQ(text_of(message.head), "only head");
  EXPECT_TRUE(message.body.empty());
  EXPECT_EQ(message.parts, 1U);
  EXPECT_EQ(message.bytes, 0U);
}

TEST_F(MessageReader, CountsSurplusPartsAndLetsThemGo) {
  std::vector<std::string> parts{"head", "body"};
  parts.resize(1000, std::string(100, 'x'));
  send(parts);
  send({"next"});
  const incoming message = receive();
  EXPECT_EQ(message.parts, 1000U);
  EXPECT_EQ(message.bytes, 4 + 998 * 100U);
  EXPECT_EQ(text_of(message.body), "body");
  EXPECT_EQ(text_of(receive().head), "next");
}

TEST_F(MessageReader, KeepsNothingOfAMessageOnceThereIsNoOther) {
  zmq::socket_t inner(router_.context(), zmq::socket_type::dealer);
  inner.set(zmq::sockopt::linger, 0);
  inner.connect(router_socket::inner_endpoint);  // over which parts are handed on as they are
  std::vector<std::byte> bytes(4096);
  int freed = 0;
  const auto note_freed = [](void* /*data*/, void* hint) { ++*static_cast<int*>(hint); };
  constexpr int parts = 4;
  for (int part = 0; part < parts; ++part) {
    (void)inner.send(zmq::message_t(bytes.data(), bytes.size(), note_freed, &freed),
                     part + 1 < parts ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
  EXPECT_EQ(receive().parts, static_cast<std::size_t>(parts));
  EXPECT_EQ(freed, 0);
  EXPECT_FALSE(in_.receive());
  EXPECT_EQ(freed, parts);
  inner.close();
}

TEST_F(MessageReader, TakesEmptyParts) {
  send({"", ""});
  const incoming message = receive();
  EXPECT_EQ(message.parts, 2U);
  EXPECT_TRUE(message.head.empty());
  EXPECT_TRUE(message.body.empty());
}

TEST_F(MessageReader, KeepsAParkedPayloadWithoutCopyingItUntilItIsUnparked) {
  const std::string payload(4096, 'p');
  send({"head", payload});
  const incoming first = receive();
  const std::byte* const there = first.body.data();
  in_.keep_payload(first, 7);
  send({"head", "another"});
  in_.keep_payload(receive(), 2);
  EXPECT_EQ(text_of(parked_.bytes(7)), payload);
  EXPECT_EQ(parked_.bytes(7).data(), there);
  EXPECT_EQ(text_of(parked_.bytes(2)), "another");
  parked_.drop(7);
  EXPECT_TRUE(parked_.bytes(7).empty());
}

TEST_F(MessageReader, KeepsAParkedPayloadThatLiesBehindItsHeadersWithoutCopyingIt) {
  send({"the head" + std::string(4096, 'p')});
  incoming message = receive();
  message.body = message.head.subspan(8);
  const std::byte* const there = message.body.data();
  in_.keep_payload(message, 7);
  send({"the next"});
  (void)receive();
  EXPECT_EQ(text_of(parked_.bytes(7)), std::string(4096, 'p'));
  EXPECT_EQ(parked_.bytes(7).data(), there);
  EXPECT_EQ(parked_.take(7).to_string(), std::string(4096, 'p')) << "without its head";
  EXPECT_TRUE(parked_.bytes(7).empty());
}

TEST_F(MessageReader, KeepsNoHeadersThatAreLongerThanThoseOfThisVersion) {
  constexpr std::size_t headers = wire::max_header_len + wire::tensor_header_bytes;
  send({std::string(headers, 'h') + "payload"});
  incoming message = receive();
  message.body = message.head.subspan(headers);
  const std::byte* const there = message.body.data();
  in_.keep_payload(message, 7);
  EXPECT_EQ(text_of(parked_.bytes(7)), "payload");
  EXPECT_NE(parked_.bytes(7).data(), there);
  parked_.drop(7);
  EXPECT_TRUE(parked_.bytes(7).empty());
}

TEST_F(MessageReader, SaysWhereItListens) {
  ASSERT_EQ(router_.endpoints().size(), 1U);
  EXPECT_NE(router_.endpoints().front(), "tcp://127.0.0.1:*");
  EXPECT_EQ(router_.endpoints().front().find("tcp://127.0.0.1:"), 0U);
}

TEST_F(MessageReader, BeatsNoHeartThatCouldStopTheDaemon) {
  // libzmq 4.3.4 asserts in the heartbeat of a connection that was taken over and has closed.
  EXPECT_EQ(router_.get().get(zmq::sockopt::heartbeat_ivl), 0);
}

TEST_F(MessageReader, NamesTheEndpointThatItCanNotHave) {
  try {
    const router_socket second({{router_.endpoints().front()}, 1024});
    FAIL() << "it did not throw";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(router_.endpoints().front()), std::string::npos);
  }
}

TEST_F(MessageReader, EndsTheConnectionOfAPartOverTheLimit) {
  send({"head", "before"});
  EXPECT_EQ(text_of(receive().body), "before");
  send({"head", std::string((1U << 20U) + 1, 'x')});
  // The dealer connects again by itself: what comes next is the first thing that arrives.
  zmq::socket_t other(context_, zmq::socket_type::dealer);
  other.set(zmq::sockopt::linger, 0);
  other.connect(router_.endpoints().front());
  (void)other.send(zmq::str_buffer("other"));
  const incoming message = receive();
  EXPECT_NE(message.identity, "dealer");
  EXPECT_EQ(text_of(message.head), "other");
}

}  // namespace
}  // namespace penstock
