#include "daemon/live/network/rtl_tcp_reader.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/daemon/live/network/written_receiver.hpp"
#include "tests/daemon/live/wire/hex.hpp"

namespace penstock::live {
namespace {

using testing::ElementsAre;
using time_point = sample_reader::time_point;

// A server as rtl_tcp documents its wire.
class RtlTcpReader : public ::testing::Test {
 protected:
  void SetUp() override {
    listening_ = file_descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listening_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listening_.number(), 1), 0);
    socklen_t length = sizeof address;
    ::getsockname(listening_.number(), reinterpret_cast<sockaddr*>(&address), &length);
    settings_.server = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    reader_.emplace(settings_, now_);
    peer_ = file_descriptor(::accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(peer_);
  }
  void send(std::string_view hex) {
    const std::vector<std::byte> bytes = from_hex(hex);
    ASSERT_EQ(::send(peer_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // What there is, when there is something.
  read_progress read(bool wait = true) {
    std::vector<pollfd> wanted;
    reader_->descriptors(wanted);
    if (wait) {
      ::poll(wanted.data(), wanted.size(), 20'000);
    }
    read_progress progress = read_progress::some;
    while (progress == read_progress::some) {
      progress = reader_->read(receiver_, now_, now_ + std::chrono::hours{1});
    }
    return progress;
  }

  file_descriptor listening_;
  file_descriptor peer_;
  rtl_tcp_settings settings_{.server = "", .sample_rate = 2'048'000};
  std::optional<rtl_tcp_reader> reader_;
  written_receiver receiver_{2};
  time_point now_{};
};

constexpr const char* greeting = "52544c30 00000005 0000001d";

TEST_F(RtlTcpReader, ReadsSamplesBehindTheGreeting) {
  EXPECT_EQ(reader_->wanted_at(), now_ + std::chrono::seconds{5});
  EXPECT_EQ(read(), read_progress::none);
  send("52544c30 0000");
  EXPECT_EQ(read(), read_progress::none);
  send("0005 0000001d 01");
  while (receiver_.streams.empty()) {
    EXPECT_EQ(read(), read_progress::none);
  }
  EXPECT_EQ(reader_->greeting()->tuner_name(), "R820T");
  EXPECT_EQ(reader_->wanted_at(), time_point::max());
  send("02 0304 05");
  while (receiver_.streams.front().delivered < 2) {
    EXPECT_EQ(read(), read_progress::none);
  }
  receiver_.give_room(16);
  send("06");
  while (receiver_.streams.front().delivered < 3) {
    EXPECT_EQ(read(), read_progress::none);
  }
  send("0708");
  while (receiver_.streams.front().delivered < 4) {
    EXPECT_EQ(read(), read_progress::none);
  }
  EXPECT_EQ(receiver_.streams.front().bytes, from_hex("0102030405060708"));
  EXPECT_EQ(receiver_.in_room, 2U);
  EXPECT_EQ(receiver_.streams.front().quality, time_quality::arrival);
  EXPECT_THAT(receiver_.streams.front().epochs, ElementsAre("connected"));
  EXPECT_THAT(receiver_.connections, ElementsAre("+" + settings_.server));
  std::array<std::byte, 5> command{};
  ASSERT_EQ(::recv(peer_.number(), command.data(), command.size(), 0), 5);
  EXPECT_EQ(std::vector(command.begin(), command.end()), from_hex("02 001f4000"));
}

TEST_F(RtlTcpReader, FailsWhenTheServerCloses) {
  send(greeting);
  send("0102");
  while (receiver_.streams.empty() || receiver_.streams.front().delivered < 1) {
    EXPECT_EQ(read(), read_progress::none);
  }
  std::array<std::byte, 5> command{};
  ASSERT_EQ(::recv(peer_.number(), command.data(), command.size(), 0), 5);  // else the kernel resets the connection
  peer_.close();
  EXPECT_EQ(read(), read_progress::failed);
  EXPECT_EQ(reader_->failure(), settings_.server + ": the server closed the connection");
  EXPECT_EQ(receiver_.connections.back(), "-" + settings_.server);
}

TEST_F(RtlTcpReader, FailsWhenItIsAnotherServer) {
  send("485454502f312e3120343030");
  while (read() == read_progress::none) {
  }
  EXPECT_EQ(reader_->failure(), settings_.server + ": it does not speak rtl_tcp");
}

TEST_F(RtlTcpReader, FailsWhenNoGreetingComes) {
  (void)read();
  now_ += std::chrono::seconds{5};
  EXPECT_EQ(read(false), read_progress::failed);
  EXPECT_EQ(reader_->failure(), settings_.server + ": it sends no greeting");
}

TEST_F(RtlTcpReader, FailsWhereNobodyListens) {
  listening_.close();
  reader_.emplace(settings_, now_);
  EXPECT_EQ(read(), read_progress::failed);
  EXPECT_EQ(reader_->failure(), settings_.server + ": Connection refused");
  EXPECT_THROW(rtl_tcp_reader({.server = "north"}, now_), std::runtime_error);
}

}  // namespace
}  // namespace penstock::live
