#include "daemon/config/client_memory.hpp"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>
#include <zmq.hpp>

#include "daemon/config/settings.hpp"
#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

client_settings with_credits(std::uint32_t requests) {
  client_settings made;
  made.credit_requests = requests;
  made.reply_cache_bytes = 0;
  return made;
}

// What the allocator has given out; nothing where another one stands in for it, as a sanitizer's does.
std::optional<std::size_t> given_out() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd > 0 ? std::optional(info.uordblks + info.hblkhd) : std::nullopt;
}

// Of 18 KiB in which libzmq received it, and of two replies that are not counted one by one.
constexpr std::size_t beside_a_request = (18U << 10U) + 2 * (4096 + 512);

TEST(ClientMemory, CountsWhatSmallMessagesTakeBesideTheirPayload) {
  const std::size_t one = needs_of_client(with_credits(1), 100, false).overhead;
  EXPECT_EQ(needs_of_client(with_credits(2), 100, false).overhead - one, beside_a_request);
}

TEST(ClientMemory, CountsCreditsThreeTimesWhereAPipelineKeepsState) {
  const client_needs needs = needs_of_client(with_credits(3), 100, true);
  EXPECT_EQ(needs.total(1000) - needs.total(0), 3000U);
  EXPECT_EQ(
      needs_of_client(with_credits(3), 100, false).total(1000) - needs_of_client(with_credits(3), 100, false).total(0),
      1000U);
}

TEST(ClientMemory, GrantsAllCreditsWhileThereIsPlentyAndTheLargestRequestAtLeast) {
  const client_needs needs{.windows = 2, .overhead = 10, .least_credits = 5};
  EXPECT_EQ(needs.credits(16 * 1000, 100), 100U);
  EXPECT_EQ(needs.credits(16 * 110, 100), 50U) << "a sixteenth of what is left, two windows and an overhead of ten";
  EXPECT_EQ(needs.credits(0, 100), 5U);
}

TEST(ClientMemory, IsAQuarterOfTheMachineUnlessItIsGiven) {
  settings how = parse_settings(with_pipeline("config_version = 1"), "penstock.toml");
  EXPECT_EQ(memory_of_clients(how, 1, 4000).limit, 1000U);
  how.limits.memory = 77;
  EXPECT_EQ(memory_of_clients(how, 1, 4000).limit, 77U);
}

TEST(ClientMemory, IsRefusedWhereNotEvenOneClientFits) {
  const settings how = parse_settings(with_pipeline("config_version = 1"), "penstock.toml");
  EXPECT_NO_THROW(check_memory_limit(how, std::size_t{1} << 30U));
  EXPECT_THROW(check_memory_limit(how, 1000), configuration_error);
}

TEST(ClientMemory, HoldsTheQueuesOfSources) {
  settings how = parse_settings(with_pipeline("config_version = 1"), "penstock.toml");
  const std::size_t limit = std::size_t{1} << 30U;
  source_declaration& tape = how.sources.emplace_back();
  tape.block = 100;
  tape.queue = 1000;
  tape.sample_bytes = 8;
  EXPECT_EQ(memory_of_clients(how, 1, 4000).sources, 1000U + 2 * 800);
  EXPECT_NO_THROW(check_memory_limit(how, limit));
  tape.queue = limit;
  EXPECT_THROW(check_memory_limit(how, limit), configuration_error);
}

TEST(ClientMemory, AddsUpItsParts) {
  const client_memory what{.limit = 50000, .slots = 300, .recent = 4000, .control = 70000, .shards = 3};
  EXPECT_EQ(what.total(), 3 * (300 + 4000 + 70000) + 50000U);
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
  EXPECT_LE(a_message, beside_a_request);
}

}  // namespace
}  // namespace penstock
