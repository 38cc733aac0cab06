#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <penstock/client.hpp>

#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::message_type;

/// Payloads behind their headers, and a daemon that says up to how many bytes it takes them so.
class OnePart : public ::testing::Test {
 protected:
  void connect() { client_ = daemon_.connect(quick_options()); }

  /// One frame.
  std::future<result> submit() {
    const auto bytes = counting_bytes(1);
    client::request request;
    request.bytes = bytes;
    return client_->submit("double", request);
  }

  scripted_daemon daemon_;
  std::unique_ptr<client> client_;
};

TEST_F(OnePart, SmallPayloadsGoInOnePartToADaemonThatTakesThem) {
  daemon_.offer().inline_bytes = 8;
  client_options options = quick_options();
  options.url = daemon_.url();
  auto connecting = std::async(std::launch::async, [&] { return std::make_unique<client>(options); });
  EXPECT_THAT(daemon_.greet().parts.at(1), HasSubstr("\"inline_bytes\":4096"));
  client_ = connecting.get();
  const auto bytes = counting_bytes(3);
  for (const std::uint32_t frames : {1U, 2U, 3U}) {
    client::request request;
    request.bytes = std::span{bytes}.first(4 * frames);
    request.frames = frames;
    auto future = client_->submit("double", request);
    const received submit = daemon_.expect(message_type::submit);
    EXPECT_EQ(submit.parts.size(), frames <= 2 ? 1U : 2U) << frames;
    EXPECT_EQ(submit.parts.at(0).size(), frames <= 2 ? wire::part_bytes(1) + 4 * frames : wire::part_bytes(1));
    EXPECT_EQ(payload_of(submit), std::string("\1\2\3\4\5\6\7\10\11\12\13\14", 4 * frames));
    daemon_.send(submit.from, in_one_part(result_parts(submit)));
    const result got = future.get();
    EXPECT_THAT(got.output("twice").to_vector<std::int16_t>(), Contains(8).Times(1));
    EXPECT_THAT(got.output("sum").to_vector<float>().front(), 10.0F);
    EXPECT_EQ(got.output("sum").to_vector<float>().size(), frames);
  }
  EXPECT_EQ(client_->counters().malformed_replies, 0U);
}

TEST_F(OnePart, NoMoreGoesInOnePartThanThisVersionSends) {
  daemon_.offer().inline_bytes = std::numeric_limits<std::uint64_t>::max();
  daemon_.offer().pipelines[0].max_frames = 2048;
  connect();
  const auto bytes = counting_bytes(1025);
  for (const std::uint32_t frames : {1024U, 1025U}) {
    client::request request;
    request.bytes = std::span{bytes}.first(4 * frames);
    request.frames = frames;
    auto future = client_->submit("double", request);
    const received submit = daemon_.expect(message_type::submit);
    EXPECT_EQ(submit.parts.size(), frames == 1024 ? 1U : 2U);
    daemon_.result(submit);
    future.get();
  }
}

TEST_F(OnePart, APayloadOfNoBytesIsAPartWhereTheDaemonSaysNothingOfOnePart) {
  daemon_.offer().pipelines[0].input.shape = {0};
  connect();
  client::request request;
  auto future = client_->submit("double", request);
  EXPECT_EQ(daemon_.expect(message_type::submit).parts.size(), 2U);
}

TEST_F(OnePart, BytesThatAreReleasedMayGoInOnePartAndStayForARepeat) {
  daemon_.offer().inline_bytes = 4096;
  connect();
  auto bytes = std::make_unique<std::vector<std::byte>>(counting_bytes(1));
  std::promise<void> done;
  auto released = done.get_future();
  client::request request;
  request.bytes = *bytes;
  request.release = [&] {
    bytes->assign(bytes->size(), std::byte{0xEE});
    done.set_value();
  };
  auto future = client_->submit("double", request);
  EXPECT_EQ(payload_of(daemon_.expect(message_type::submit)), "\1\2\3\4");
  daemon_.restart();
  daemon_.greet();
  const received again = daemon_.expect(message_type::submit);
  EXPECT_EQ(again.parts.size(), 1U);
  EXPECT_EQ(payload_of(again), "\1\2\3\4");
  EXPECT_NE(released.wait_for(std::chrono::seconds{0}), std::future_status::ready);
  daemon_.result(again);
  future.get();
  released.get();
}

TEST_F(OnePart, AWelcomeUnaskedSaysAnew) {
  connect();
  auto first = submit();
  const received before = daemon_.expect(message_type::submit);
  EXPECT_EQ(before.parts.size(), 2U);
  daemon_.offer().inline_bytes = 4096;
  daemon_.welcome(before);
  daemon_.result(before);
  first.get();
  auto second = submit();
  const received after = daemon_.expect(message_type::submit);
  EXPECT_EQ(after.parts.size(), 1U);
  daemon_.result(after);
  second.get();
}

TEST_F(OnePart, WhatWentInOnePartGoesInTwoToAnOlderDaemonThatTookItsPlace) {
  daemon_.offer().inline_bytes = 4096;
  connect();
  auto future = submit();
  EXPECT_EQ(daemon_.expect(message_type::submit).parts.size(), 1U);
  daemon_.offer().inline_bytes = 0;
  daemon_.restart();
  daemon_.greet();
  const received again = daemon_.expect(message_type::submit);
  EXPECT_EQ(again.parts.size(), 2U);
  EXPECT_EQ(payload_of(again), "\1\2\3\4");
  daemon_.result(again);
  EXPECT_THAT(future.get().output("sum").to_vector<float>(), ElementsAre(10.0F));
}

}  // namespace
}  // namespace penstock::test
