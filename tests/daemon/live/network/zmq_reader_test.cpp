#include "daemon/live/network/zmq_reader.hpp"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "proto/message.hpp"
#include "tests/daemon/live/network/written_receiver.hpp"
#include "tests/daemon/live/wire/hex.hpp"
#include "tests/daemon/net/key_folder.hpp"

namespace penstock::live {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using time_point = sample_reader::time_point;

class ZmqReader : public ::testing::Test {
 protected:
  // A PUB that waits for the reader's subscription; or a PUSH.
  void connect(zmq_settings settings) {
    const bool sub = settings.pattern == zmq_settings::pattern_of::sub;
    sender_ = zmq::socket_t(context_, sub ? zmq::socket_type::xpub : zmq::socket_type::push);
    sender_.set(zmq::sockopt::linger, 0);
    sender_.bind("tcp://127.0.0.1:*");
    settings.connect = {sender_.get(zmq::sockopt::last_endpoint)};
    settings.sample_bytes = 4;
    reader_.emplace(settings);
    if (sub) {
      zmq::message_t subscription;
      ASSERT_TRUE(sender_.recv(subscription));
    }
  }
  void send(const std::vector<std::vector<std::byte>>& parts) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      (void)sender_.send(zmq::buffer(parts[part]),
                         part + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  }
  static std::vector<std::byte> text(std::string_view characters) {
    const auto bytes = std::as_bytes(std::span(characters));
    return {bytes.begin(), bytes.end()};
  }
  static std::vector<std::byte> samples(std::uint32_t first, std::size_t count) {
    std::vector<std::uint32_t> values(count);
    std::iota(values.begin(), values.end(), first);
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  static std::vector<std::byte> joined(std::vector<std::byte> first, const std::vector<std::byte>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }
  static std::vector<std::byte> tagged(std::uint64_t offset, std::size_t count) {
    std::vector<std::byte> message;
    const gnuradio_header_writer writer(message, offset);
    return joined(message, samples(static_cast<std::uint32_t>(offset), count));
  }
  // Reads until `samples` were delivered, and fails if they do not come.
  void read_until(std::uint64_t samples) {
    const auto delivered = [&] {
      std::uint64_t sum = 0;
      for (const auto& each : receiver_.streams) {
        sum += each.delivered + each.late;
      }
      return sum;
    };
    wait([&] { return delivered() >= samples; });
    EXPECT_EQ(delivered(), samples);
  }
  template <class Condition>
  void wait(Condition holds) {
    const time_point end = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    for (;;) {
      read_progress progress = read_progress::some;
      while (progress == read_progress::some) {
        const time_point now = std::chrono::steady_clock::now();
        progress = reader_->read(receiver_, now, now + std::chrono::milliseconds{100});
      }
      ASSERT_EQ(progress, read_progress::none);
      if (holds()) {
        return;
      }
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "it does not come";
      std::vector<pollfd> wanted;
      reader_->descriptors(wanted);
      ::poll(wanted.data(), wanted.size(), 1000);
    }
  }
  const written_receiver::one_stream& stream(std::size_t number = 0) { return receiver_.streams.at(number); }

  zmq::context_t context_;
  zmq::socket_t sender_;
  std::optional<zmq_reader> reader_;
  written_receiver receiver_{4};
};

TEST_F(ZmqReader, ReadsRawSamplesOfEachTopic) {
  connect({.framing = zmq_framing::raw});
  send({samples(0, 10)});
  send({text("north"), samples(100, 5)});
  send({samples(10, 10)});
  send({text("north"), samples(105, 5)});
  read_until(30);
  ASSERT_EQ(receiver_.streams.size(), 2U);
  EXPECT_EQ(stream(0).name, "zmq");
  EXPECT_EQ(stream(1).name, "north");
  EXPECT_EQ(stream(0).bytes, samples(0, 20));
  EXPECT_EQ(stream(1).bytes, samples(100, 10));
  EXPECT_EQ(stream(0).quality, time_quality::arrival);
  ASSERT_EQ(receiver_.connections.size(), 1U);
  EXPECT_EQ(receiver_.connections.front().front(), '+');
}

TEST_F(ZmqReader, AsksForItsTopicsOnly) {
  connect({.topics = {"north"}, .framing = zmq_framing::raw});
  send({text("south"), samples(0, 5)});
  send({text("north"), samples(100, 5)});
  read_until(5);
  EXPECT_EQ(stream().name, "north");
}

TEST_F(ZmqReader, PullsFromAPush) {
  connect({.pattern = zmq_settings::pattern_of::pull, .framing = zmq_framing::raw});
  for (std::uint32_t message = 0; message < 500; ++message) {
    send({samples(message * 7, 7)});
  }
  read_until(3500);
  EXPECT_EQ(stream().bytes, samples(0, 3500));
}

TEST_F(ZmqReader, RefusesHalfSamplesAndTooManyParts) {
  connect({.framing = zmq_framing::raw});
  send({from_hex("001122")});
  send({text("a"), samples(0, 1), samples(0, 1)});
  send({text("a"), samples(0, 1), samples(0, 1), samples(0, 1)});
  send({std::vector<std::byte>(300), samples(0, 1)});
  send({samples(0, 1)});
  read_until(1);
  EXPECT_THAT(
      receiver_.complaints,
      ElementsAre(Pair("a message has too many parts", 1), Pair("a message has too many parts, or too few", 1),
                  Pair("a message holds no whole number of samples", 1), Pair("a topic is longer than 256 bytes", 1)));
}

TEST_F(ZmqReader, KnowsWhatAPubDropped) {
  connect({.framing = zmq_framing::gnuradio_tags});
  send({tagged(1000, 10)});
  send({tagged(1010, 10)});
  send({tagged(1500, 10)});
  read_until(30);
  EXPECT_EQ(stream().places.front().first, 1000);
  EXPECT_EQ(stream().gaps, 480U);
  EXPECT_THAT(stream().epochs, IsEmpty());
}

TEST_F(ZmqReader, BeginsAnEpochWhereTheOffsetFell) {
  connect({.framing = zmq_framing::gnuradio_tags});
  send({text("north"), tagged(1000, 10)});
  send({text("north"), tagged(0, 10)});
  send({text("north"), tagged(10, 10)});
  read_until(30);
  EXPECT_THAT(stream().epochs, ElementsAre("the flowgraph began again"));
  EXPECT_EQ(stream().gaps, 0U);
}

TEST_F(ZmqReader, ReadsTimeRateAndFrequencyFromTags) {
  connect({.framing = zmq_framing::gnuradio_tags});
  std::vector<std::byte> message;
  gnuradio_header_writer writer(message, 100);
  writer.rate(100, 1e6);
  writer.frequency(100, 100e6);
  writer.time(104, 1'700'000'000'250'000'000);
  writer.natural(105, "squelch_sob", 1);
  send({joined(message, samples(100, 10))});
  read_until(10);
  EXPECT_EQ(stream().time_ns, 1'700'000'000'250'000'000);
  EXPECT_EQ(stream().quality, time_quality::source);
  EXPECT_THAT(stream().places, ElementsAre(Pair(100, 0U), Pair(104, 4U)));
  gnuradio_header_writer again(message, 110);
  again.rate(110, 1e6);
  again.rate(113, 2e6);
  again.frequency(113, 100e6);
  again.frequency(116, 101e6);
  send({joined(message, samples(110, 10))});
  read_until(20);
  EXPECT_THAT(stream().epochs, ElementsAre("the sample rate changed", "the frequency changed"));
  EXPECT_EQ(stream().bytes, samples(100, 20));
}

TEST_F(ZmqReader, RefusesWhatIsNotGnuRadios) {
  connect({.framing = zmq_framing::gnuradio_tags});
  send({samples(0, 16)});
  send({from_hex("f05f01 ffffffffffffffff 0000000000000000 00000000")});
  send({from_hex("f05f01 0000000000000000 0000000000000000 000000")});
  send({tagged(0, 1)});
  read_until(1);
  EXPECT_THAT(receiver_.complaints,
              ElementsAre(Pair("a message does not begin with GNU Radio's header (\"Pass Tags\" of the sink)", 2),
                          Pair("a message holds no whole number of samples", 1)));
}

TEST_F(ZmqReader, ReadsSubmitsWithTheirAccount) {
  connect({.framing = zmq_framing::penstock});
  const auto submit = [](std::int64_t index, std::uint32_t epoch, std::size_t count) {
    wire::message_header header;
    header.type = wire::message_type::submit;
    header.header_len = wire::account_header_bytes;
    header.tensors = 1;
    wire::tensor_header tensor{wire::uint16_type, 2, count * 4, {static_cast<std::int64_t>(count), 2}};
    wire::sample_account account;
    account.index = index;
    account.epoch = epoch;
    account.flags = wire::sample_flag::index_known;
    account.time_ns = 77;
    account.quality = wire::time_quality::disciplined;
    std::vector<std::byte> head(wire::account_header_bytes + wire::tensor_header_bytes);
    wire::encode(header, head);
    wire::encode(account, std::span(head).subspan(wire::header_bytes));
    wire::encode(tensor, std::span(head).subspan(wire::account_header_bytes));
    return head;
  };
  send({text("north"), submit(50, 1, 10), samples(50, 10)});
  send({text("north"), submit(70, 1, 10), samples(70, 10)});
  send({text("north"), submit(0, 2, 10), samples(0, 10)});
  send({text("north"), samples(0, 10)});
  send({text("north"), submit(0, 2, 10), samples(0, 9)});
  send({submit(0, 2, 10), samples(0, 10)});
  read_until(40);
  EXPECT_EQ(stream().name, "north");
  EXPECT_EQ(stream().gaps, 10U);
  EXPECT_THAT(stream().epochs, ElementsAre("the sender began an epoch"));
  EXPECT_EQ(stream().quality, time_quality::disciplined);
  EXPECT_EQ(stream().time_ns, 77);
  EXPECT_EQ(stream(1).name, "zmq");
  EXPECT_EQ(receiver_.complaints.size(), 2U);
}

TEST_F(ZmqReader, ReadsWhatASubscriberGetsAndKnowsWhatIsMissing) {
  connect({.framing = zmq_framing::penstock});
  const auto published = [](std::uint64_t sequence, std::size_t count, std::int64_t index) {
    wire::message_header header;
    header.type = wire::message_type::published;
    header.header_len = wire::account_header_bytes_of(1);
    header.sequence = sequence;
    header.tensors = 1;
    const wire::tensor_header tensor{wire::uint16_type, 3, count * 4, {1, static_cast<std::int64_t>(count), 2}};
    std::vector<std::byte> head(header.header_len + wire::tensor_header_bytes);
    wire::encode(header, head);
    wire::encode(wire::sample_account{.index = 77, .flags = wire::sample_flag::index_known},
                 std::span(head).subspan(wire::header_bytes));
    wire::encode_output_index(index, std::span(head).subspan(wire::account_header_bytes));
    wire::encode(tensor, std::span(head).subspan(header.header_len));
    return head;
  };
  send({text("north"), published(7, 10, 1000), samples(0, 10)});
  send({text("north"), published(8, 10, 1040), samples(10, 10)});
  send({text("north"), published(11, 10, 1160), samples(40, 10)});
  read_until(30);
  EXPECT_EQ(receiver_.lost_in_network, 20U);
  send({text("north"), published(12, 10, 1240), samples(60, 10)});  // the one before was withheld
  read_until(40);
  EXPECT_EQ(receiver_.lost_in_network, 30U);
  EXPECT_THAT(stream().epochs, IsEmpty());
  send({text("north"), published(14, 9, 1320), samples(80, 9)});
  send({text("north"), published(0, 9, 0), samples(0, 9)});
  read_until(58);
  EXPECT_THAT(stream().epochs, ElementsAre("results of unknown length are missing", "the sender began to count again"));
  EXPECT_EQ(receiver_.lost_in_network, 30U);
  EXPECT_THAT(receiver_.complaints, IsEmpty());
}

TEST_F(ZmqReader, SuspectsALossWhereRawSamplesComeOverANewConnection) {
  connect({.framing = zmq_framing::raw});
  send({samples(0, 10)});
  read_until(10);
  const std::string endpoint = sender_.get(zmq::sockopt::last_endpoint);
  sender_.close();
  wait([&] { return receiver_.connections.size() == 2; });
  EXPECT_EQ(receiver_.connections.back().front(), '-');
  EXPECT_EQ(stream().suspected, 0U);
  sender_ = zmq::socket_t(context_, zmq::socket_type::xpub);
  sender_.set(zmq::sockopt::linger, 0);
  sender_.bind(endpoint);
  wait([&] { return receiver_.connections.size() == 3; });
  EXPECT_EQ(stream().suspected, 1U);
  zmq::message_t subscription;
  ASSERT_TRUE(sender_.recv(subscription));
  send({samples(20, 10)});
  read_until(20);
}

TEST_F(ZmqReader, TakesThoseWhoseKeysAreListedAndNobodyElse) {
  using penstock::testing::key_folder;
  using penstock::testing::key_pair;
  const key_folder folder;
  const key_pair own;
  const key_pair listed;
  const key_pair other;
  reader_.emplace(zmq_settings{.pattern = zmq_settings::pattern_of::pull,
                               .bind = {"tcp://127.0.0.1:*"},
                               .sample_bytes = 4,
                               .keys = read_socket_keys("", folder.write("own.key", own.secret_key()),
                                                        folder.write("list", listed.public_key()))});
  const auto push = [&](const key_pair* keys, std::uint32_t first) {
    zmq::socket_t made(context_, zmq::socket_type::push);
    made.set(zmq::sockopt::linger, 0);
    if (keys != nullptr) {
      made.set(zmq::sockopt::curve_serverkey, own.public_key());
      made.set(zmq::sockopt::curve_publickey, keys->public_key());
      made.set(zmq::sockopt::curve_secretkey, keys->secret_key());
    }
    made.connect(reader_->endpoints().front());
    (void)made.send(zmq::buffer(samples(first, 10)), zmq::send_flags::none);
    return made;
  };
  const zmq::socket_t plain = push(nullptr, 1000);
  wait([&] { return !receiver_.complaints.empty(); });
  const zmq::socket_t stranger = push(&other, 2000);
  wait([&] { return receiver_.complaints.begin()->second >= 2; });
  const zmq::socket_t sender = push(&listed, 0);
  read_until(10);
  EXPECT_EQ(stream().bytes, samples(0, 10));
}

TEST_F(ZmqReader, ConnectsOnlyToWhoHasTheKeyThatIsExpected) {
  using penstock::testing::key_folder;
  using penstock::testing::key_pair;
  const key_folder folder;
  const key_pair own;
  const key_pair server;
  sender_ = zmq::socket_t(context_, zmq::socket_type::push);
  sender_.set(zmq::sockopt::linger, 0);
  sender_.set(zmq::sockopt::curve_server, true);
  sender_.set(zmq::sockopt::curve_secretkey, server.secret_key());
  sender_.bind("tcp://127.0.0.1:*");
  const auto connect_expecting = [&](const key_pair& expected) {
    reader_.emplace(
        zmq_settings{.pattern = zmq_settings::pattern_of::pull,
                     .connect = {sender_.get(zmq::sockopt::last_endpoint)},
                     .sample_bytes = 4,
                     .keys = read_socket_keys(expected.public_key(), folder.write("own.key", own.secret_key()), "")});
  };
  connect_expecting(own);
  wait([&] { return !receiver_.complaints.empty(); });
  connect_expecting(server);
  send({samples(0, 10)});
  read_until(10);
  EXPECT_EQ(stream().bytes, samples(0, 10));
}

TEST_F(ZmqReader, NamesTheEndpointThatCannotBe) {
  const auto complaint = [](const zmq_settings& settings) -> std::string {
    try {
      const zmq_reader reader(settings);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(complaint({.connect = {"tcp//north"}}), "cannot connect to tcp//north: Invalid argument");
  const zmq_reader first({.bind = {"tcp://127.0.0.1:*"}});
  EXPECT_EQ(complaint({.bind = first.endpoints()}),
            "cannot bind to " + first.endpoints().front() + ": Address already in use");
}

}  // namespace
}  // namespace penstock::live
