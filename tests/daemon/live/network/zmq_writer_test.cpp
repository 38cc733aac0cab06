#include "daemon/live/network/zmq_writer.hpp"

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "daemon/live/wire/gnuradio_tags.hpp"

namespace penstock::live {
namespace {

class ZmqWriter : public ::testing::Test {
 protected:
  void open(zmq_writer_settings settings) {
    is_pub_ = settings.pattern == zmq_writer_settings::pattern_of::pub;
    settings.bind = {"tcp://127.0.0.1:*"};
    writer_.emplace(settings);
  }
  /// A SUB of everything, or a PULL, which takes at most one message before it is read.
  zmq::socket_t receiver() {
    zmq::socket_t made(context_, is_pub_ ? zmq::socket_type::sub : zmq::socket_type::pull);
    made.set(zmq::sockopt::linger, 0);
    made.set(zmq::sockopt::rcvhwm, 1);
    made.set(zmq::sockopt::rcvbuf, 4096);
    made.set(zmq::sockopt::rcvtimeo, 10'000);
    if (is_pub_) {
      made.set(zmq::sockopt::subscribe, "");
    }
    made.connect(writer_->endpoints().at(0));
    return made;
  }
  result_message message(std::size_t bytes = 8) {
    bytes_.assign(bytes, std::byte{7});
    result_message made;
    made.session = "air";
    made.output = "y";
    made.name = "topic";
    made.bytes = bytes_;
    made.item_bytes = 4;
    made.offset = next_++;
    return made;
  }
  static std::string text(zmq::socket_t& from) {
    zmq::message_t part;
    return from.recv(part) ? part.to_string() : "nothing";
  }
  /// Writes until a receiver that is new hears of it.
  void write_until_heard(zmq::socket_t& receiver) {
    while (receiver.get(zmq::sockopt::events) == 0) {
      (void)writer_->write(message());
      ::poll(nullptr, 0, 5);
    }
    zmq::message_t part;
    receiver.set(zmq::sockopt::rcvtimeo, 200);
    while (receiver.recv(part)) {
    }
    receiver.set(zmq::sockopt::rcvtimeo, 10'000);
  }

  zmq::context_t context_;
  std::optional<zmq_writer> writer_;
  std::vector<std::byte> bytes_;
  bool is_pub_ = true;
  std::uint64_t next_ = 0;
};

TEST_F(ZmqWriter, PutsTheTopicBeforeTheItems) {
  open({.has_topic = true, .high_water_mark = 100});
  zmq::socket_t sub = receiver();
  write_until_heard(sub);
  EXPECT_EQ(writer_->write(message()), write_progress::written);
  EXPECT_EQ(text(sub), "topic");
  EXPECT_EQ(text(sub), std::string(8, '\7'));
}

TEST_F(ZmqWriter, TellsTimeAndRateWhereAStreamBeginsAndToEachNewReceiver) {
  open({.framing = zmq_framing::gnuradio_tags, .high_water_mark = 100});
  zmq::socket_t sub = receiver();
  write_until_heard(sub);
  const auto tags_of = [&](bool begins) {
    result_message next = message();
    next.begins = begins;
    next.time_ns = 1'500'000'000;
    next.item_rate = 48000;
    EXPECT_EQ(writer_->write(next), write_progress::written);
    zmq::message_t part;
    EXPECT_TRUE(sub.recv(part));
    const auto read = read_gnuradio_message({part.data<std::byte>(), part.size()});
    EXPECT_TRUE(read && read->offset == next.offset && read->samples.size() == 8);
    return read ? read->tags : 99;
  };
  EXPECT_EQ(tags_of(false), 0U);
  EXPECT_EQ(tags_of(true), 2U);
  EXPECT_EQ(tags_of(false), 0U);
  zmq::socket_t late = receiver();
  std::uint64_t tags = 0;
  while (tags == 0) {
    tags = tags_of(false);
  }
  EXPECT_EQ(tags, 2U);
  EXPECT_EQ(tags_of(false), 0U);
}

TEST_F(ZmqWriter, APubDropsForAReceiverThatHasNoRoomAndForNoOther) {
  open({.high_water_mark = 1});
  zmq::socket_t stalled = receiver();
  write_until_heard(stalled);
  zmq::socket_t quick = receiver();
  write_until_heard(quick);
  int dropped = 0;
  for (int each = 0; each < 50; ++each) {
    dropped += writer_->write(message(1 << 20)) == write_progress::dropped ? 1 : 0;
    ASSERT_EQ(text(quick).size(), std::size_t{1} << 20U) << "message " << each;
  }
  EXPECT_GT(dropped, 0);
}

TEST_F(ZmqWriter, APushWaitsForAReceiver) {
  open({.pattern = zmq_writer_settings::pattern_of::push, .drops = false, .high_water_mark = 2});
  EXPECT_EQ(writer_->write(message()), write_progress::full);
  zmq::socket_t pull = receiver();
  std::vector<pollfd> waited;
  writer_->descriptors(waited);
  write_progress made = write_progress::full;
  while (made == write_progress::full) {
    ASSERT_EQ(::poll(waited.data(), waited.size(), 10'000), 1);
    made = writer_->write(message());
  }
  EXPECT_EQ(made, write_progress::written);
  EXPECT_EQ(text(pull), std::string(8, '\7'));
}

}  // namespace
}  // namespace penstock::live
