#include "client/cpp/endpoint.hpp"

#include <future>
#include <ostream>

#include <gmock/gmock.h>

#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {
namespace {

using wire::message_type;

struct choice_case {
  const char* name;
  const char* url;
  std::vector<std::string> own_endpoints;
  std::vector<std::string> endpoints;
  const char* chosen;  ///< "" = it stays
};

void PrintTo(const choice_case& tested, std::ostream* out) {
  *out << tested.name;
}

class ShardEndpoint : public ::testing::TestWithParam<choice_case> {};

TEST_P(ShardEndpoint, IsTheEndpointAtTheSamePlace) {
  wire::welcome welcome;
  welcome.answering = 0;
  welcome.shard = 1;
  welcome.shards = {GetParam().own_endpoints, GetParam().endpoints};
  EXPECT_EQ(link::better_endpoint(welcome, GetParam().url).value_or(""), GetParam().chosen);
}

INSTANTIATE_TEST_SUITE_P(
    Endpoints, ShardEndpoint,
    ::testing::Values(
        choice_case{
            "SameHost", "tcp://10.0.0.7:7600", {"tcp://10.0.0.7:7600"}, {"tcp://10.0.0.7:7601"}, "tcp://10.0.0.7:7601"},
        choice_case{"AnyHost", "tcp://gpu.lab:7600", {"tcp://*:7600"}, {"tcp://*:7601"}, "tcp://gpu.lab:7601"},
        choice_case{
            "AllZeros", "tcp://gpu.lab:7600", {"tcp://0.0.0.0:7600"}, {"tcp://0.0.0.0:7601"}, "tcp://gpu.lab:7601"},
        choice_case{"SecondPlace", "tcp://a:2", {"tcp://a:1", "tcp://a:2"}, {"tcp://a:3", "tcp://a:4"}, "tcp://a:4"},
        choice_case{
            "Path", "ipc:///run/0", {"tcp://*:1", "ipc:///run/0"}, {"tcp://*:2", "ipc:///run/1"}, "ipc:///run/1"},
        choice_case{"ThroughATunnel",
                    "tcp://localhost:9000",
                    {"tcp://*:7600"},
                    {"ipc:///x", "tcp://*:7601"},
                    "tcp://localhost:7601"},
        choice_case{
            "AddressOfItsOwn", "tcp://gpu.lab:7600", {"tcp://*:7600"}, {"tcp://10.1.1.1:7600"}, "tcp://10.1.1.1:7600"},
        choice_case{"NothingAlike", "tcp://a:1", {"tcp://*:9"}, {"ipc:///run/1"}, ""},
        choice_case{"NothingAtAll", "tcp://a:1", {"tcp://*:1"}, {}, ""}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(ShardEndpoints, StaysWhereItShouldBeOrIsToldNonsense) {
  wire::welcome welcome;
  EXPECT_FALSE(link::better_endpoint(welcome, "tcp://a:1"));
  welcome.shard = 1;
  EXPECT_FALSE(link::better_endpoint(welcome, "tcp://a:1"));
  welcome.shards = {{"tcp://a:1"}, {"tcp://a:2"}};
  welcome.answering = 1;
  EXPECT_FALSE(link::better_endpoint(welcome, "tcp://a:2"));
  welcome.answering = 7;
  EXPECT_FALSE(link::better_endpoint(welcome, "tcp://a:1"));
}

TEST(ShardEndpoints, KnowsWhereEachShardIsAndItsOwnByTheAddressThatLedThere) {
  wire::welcome welcome;
  EXPECT_THAT(link::endpoints_of_all(welcome, "tcp://a:1"), ::testing::IsEmpty());
  welcome.answering = 1;
  welcome.shards = {{"tcp://*:7600", "ipc:///run/0"}, {"tcp://*:7601", "ipc:///run/1"}, {}};
  EXPECT_THAT(link::endpoints_of_all(welcome, "tcp://gpu.lab:7601"),
              ::testing::ElementsAre("tcp://gpu.lab:7600", "tcp://gpu.lab:7601", ""));
  EXPECT_THAT(link::endpoints_of_all(welcome, "tcp://localhost:9000"),
              ::testing::ElementsAre("tcp://localhost:7600", "tcp://localhost:9000", ""));
  welcome.answering = 7;
  EXPECT_THAT(link::endpoints_of_all(welcome, "tcp://a:1"), ::testing::IsEmpty());
}

/// Two shards, each a daemon that the test plays.
class Shards : public ::testing::Test {
 protected:
  Shards() {
    first_.offer().shards = {{first_.url()}, {second_.url()}};
    first_.offer().shard = 1;
    second_.offer() = first_.offer();
    second_.offer().resume = std::string(wire::resume_token_letters, '2');
    second_.offer().answering = 1;
  }

  scripted_daemon first_;
  scripted_daemon second_;
};

TEST_F(Shards, ClientMovesBeforeItsFirstRequest) {
  client_options options = quick_options();
  options.url = first_.url();
  auto connecting = std::async(std::launch::async, [&] { return std::make_unique<client>(options); });
  const received hello = first_.greet();
  EXPECT_EQ(first_.expect(message_type::goodbye).peer, hello.peer);
  EXPECT_EQ(token_of(second_.greet()), first_.offer().resume);
  const auto connected = connecting.get();
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  auto future = connected->submit("double", request);
  second_.result(second_.expect(message_type::submit));
  EXPECT_EQ(future.get().frames(), 1U);
}

TEST_F(Shards, ClientMovesOnce) {
  second_.offer().shard = 0;
  client_options options = quick_options();
  options.url = first_.url();
  auto connecting = std::async(std::launch::async, [&] { return std::make_unique<client>(options); });
  first_.greet();
  second_.greet();
  const auto connected = connecting.get();
  second_.restart();
  EXPECT_EQ(token_of(second_.greet()), second_.offer().resume);
}

TEST_F(Shards, ClientStaysWhenItsOptionsSaySoAndKnowsOfTheOthers) {
  client_options options = quick_options();
  options.stays = true;
  const auto connected = first_.connect(options);
  EXPECT_EQ(connected->server().shard, 0U);
  EXPECT_THAT(connected->server().shards, ::testing::ElementsAre(first_.url(), second_.url()));
  auto pinged = std::async(std::launch::async, [&] { return connected->ping(std::chrono::seconds{20}); });
  first_.answer_pings(1);
  pinged.get();
}

TEST_F(Shards, ClientStaysWhereTheShardHasNoAddressForIt) {
  first_.offer().shards[1] = {};
  const auto connected = first_.connect(quick_options());
  auto pinged = std::async(std::launch::async, [&] { return connected->ping(std::chrono::seconds{20}); });
  first_.answer_pings(1);
  pinged.get();
}

TEST_F(Shards, ClientStaysWhereTheAddressIsNone) {
  first_.offer().shards[1] = {"tcp://nonsense"};
  client_options options = quick_options();
  options.url = first_.url();
  auto connecting = std::async(std::launch::async, [&] { return std::make_unique<client>(options); });
  first_.greet();
  EXPECT_EQ(token_of(first_.greet()), first_.offer().resume);
  EXPECT_NE(connecting.get(), nullptr);
}

}  // namespace

}  // namespace penstock::test
