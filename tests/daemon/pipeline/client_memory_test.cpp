#include "daemon/settings/client_memory.hpp"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>
#include <zmq.hpp>

#include "daemon/settings/settings.hpp"
#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

std::size_t requests_of(std::size_t credits, const std::string& before = "config_version = 1") {
  settings how = parse_settings(with_pipeline(before), "penstock.toml");
  how.clients.credit_bytes = 1000;
  how.clients.credit_requests = static_cast<std::uint32_t>(credits);
  return memory_of_clients(how, 1).requests;
}

// What the allocator has given out; nothing where another one stands in for it, as a sanitizer's does.
std::optional<std::size_t> given_out() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd > 0 ? std::optional(info.uordblks + info.hblkhd) : std::nullopt;
}

TEST(ClientMemory, CountsARequestsPayloadAndWhatItWasReceivedIn) {
  EXPECT_EQ(requests_of(0), 1000U);
  EXPECT_EQ(requests_of(3) - requests_of(2), 18U << 10U);
}

TEST(ClientMemory, CountsWhatPassesThroughItsSessionThreeTimes) {
  const std::string session =
      "config_version = 1\n[[pipeline]]\nname = 'q'\ninput = { dtype = 'f32', shape = [16] }\n"
      "[[pipeline.stage]]\nname = 's'\nop = 'fir'\ntaps = [1, 2]\n";
  EXPECT_EQ(requests_of(3, session), 3 * requests_of(3));
}

TEST(ClientMemory, AddsUpItsParts) {
  const client_memory what{
      .requests = 1, .replies = 20, .slots = 300, .recent = 4000, .clients = 2, .shards = 3, .shared = 50000};
  EXPECT_EQ(what.total(), 3 * (2 * 21 + 300 + 4000) + 50000U);
}

// libzmq receives small messages into a buffer that each of them keeps whole. Each message here comes by itself, so
// that none shares its buffer with another.
TEST(ClientMemory, CountsAllThatASmallMessageKeeps) {
  constexpr std::size_t held = 200;
  zmq::context_t context;
  zmq::socket_t from(context, zmq::socket_type::pair);
  zmq::socket_t to(context, zmq::socket_type::pair);
  to.bind("tcp://127.0.0.1:*");
  from.connect(to.get(zmq::sockopt::last_endpoint));
  std::vector<zmq::message_t> messages(1 + held);
  std::optional<std::size_t> before;
  for (zmq::message_t& each : messages) {
    (void)from.send(zmq::message_t(400), zmq::send_flags::none);
    (void)to.recv(each);
    if (!before) {
      before = given_out();
    }
    if (!before) {
      GTEST_SKIP() << "another allocator than glibc's";
    }
  }
  const std::size_t a_message = (given_out().value() - *before) / held;
  EXPECT_GT(a_message, 8U << 10U);
  EXPECT_LE(a_message, requests_of(1) - requests_of(0));
}

}  // namespace
}  // namespace penstock
