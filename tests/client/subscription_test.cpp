#include <future>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <penstock/subscription.hpp>

#include "tests/client/client_fixtures.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::message_type;

constexpr auto long_enough = 20s;

class Subscription : public client_fixture {
 protected:
  /// Subscribes to "double"; the daemon answers.
  [[nodiscard]] subscription subscribe(const subscribe_options& options = {},
                                       std::function<void(published&&)> received = {}) {
    auto made = std::async(std::launch::async, [&] { return client_->subscribe("double", options, received); });
    asked_ = daemon_.expect(message_type::subscribe);
    grant();
    return made.get();
  }
  void grant(std::uint64_t next_sequence = 0) {
    wire::message_header header;
    header.type = message_type::subscribed;
    header.request_id = asked_.header.request_id;
    daemon_.send(asked_.peer, {header_part(header), wire::encode(wire::subscribed{4096, next_sequence})});
  }
  void tell(const wire::publisher& source) {
    wire::message_header header;
    header.type = message_type::publisher;
    header.request_id = asked_.header.request_id;
    header.session = source.session;
    daemon_.send(asked_.peer, {header_part(header), wire::encode(source)});
  }
  /// One frame of the output "sum", an f32.
  void publish(std::uint64_t sequence, float sum, std::uint32_t session = 1) {
    wire::message_header header;
    header.type = message_type::published;
    header.request_id = asked_.header.request_id;
    header.session = session;
    header.sequence = sequence;
    header.frames = 1;
    header.tensors = 1;
    wire::tensor_header tensor{.type = wire::float32_type, .dimensions = 2, .bytes = 4, .shape = {1, 1}};
    std::string payload(sizeof sum, '\0');
    std::memcpy(payload.data(), &sum, sizeof sum);
    daemon_.send(asked_.peer, {header_part(header, {tensor}), payload});
  }
  /// The daemon of the test answers HELLOs until SUBSCRIBE comes, and that.
  void await_resubscription() {
    for (;;) {
      const received next = daemon_.next();
      if (next.header.type == message_type::hello) {
        daemon_.welcome(next);
      } else if (next.header.type == message_type::subscribe) {
        asked_ = next;
        return;
      }
    }
  }

  const wire::publisher source_{.session = 1, .name = "s", .client = "c", .pipeline = "double", .outputs = {"sum"}};
  received asked_;
};

TEST_F(Subscription, AsksForWhatTheCallerNames) {
  connect();
  const subscription made = subscribe({.more_pipelines = {"other"},
                                       .sessions = {"antenna*"},
                                       .outputs = {"sum"},
                                       .requests = true,
                                       .queue_bytes = 4096});
  EXPECT_EQ(
      asked_.parts.at(1),
      R"({"pipelines":["double","other"],"sessions":["antenna*"],"outputs":["sum"],"queue_bytes":4096,"requests":true})");
  EXPECT_EQ(made.queue_bytes(), 4096U);
  EXPECT_FALSE(made.ended());
}

TEST_F(Subscription, GivesResultsWithTheirPublisherAndWhatWasLost) {
  connect();
  subscription made = subscribe();
  tell(source_);
  publish(0, 1.5F);
  publish(3, -2.0F);
  const auto first = made.next(long_enough);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->session, "s");
  EXPECT_EQ(first->client, "c");
  EXPECT_EQ(first->pipeline, "double");
  EXPECT_EQ(first->lost, 0U);
  EXPECT_FALSE(first->restarted);
  EXPECT_THAT(first->outputs.output("sum").to_vector<float>(), ElementsAre(1.5F));
  const auto second = made.next(long_enough);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->sequence, 3U);
  EXPECT_EQ(second->lost, 2U);
  EXPECT_FALSE(made.next(0ns)) << "nothing more has come";
}

TEST_F(Subscription, CallbackIsCalledOnTheClientsThread) {
  connect();
  std::promise<float> heard;
  const subscription made = subscribe({}, [&heard](published&& item) {
    heard.set_value(item.outputs.output("sum").to_vector<float>().at(0));
    throw std::runtime_error("is ignored");
  });
  tell(source_);
  publish(0, 4.0F);
  EXPECT_EQ(heard.get_future().get(), 4.0F);
  settle();
}

TEST_F(Subscription, OldestGoesWhenTheBufferIsFullAndIsCounted) {
  connect();
  subscription made = subscribe({.buffer_bytes = 8});
  tell(source_);
  for (std::uint64_t sequence = 0; sequence < 5; ++sequence) {
    publish(sequence, static_cast<float>(sequence));
  }
  settle();
  const auto kept = made.next(long_enough);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->sequence, 3U);
  EXPECT_EQ(kept->lost, 3U);
  EXPECT_EQ(made.next(long_enough)->lost, 0U);
}

TEST_F(Subscription, RefusalThrowsTheDaemonsReason) {
  connect();
  auto made = std::async(std::launch::async, [&] { return client_->subscribe("double"); });
  daemon_.error(daemon_.expect(message_type::subscribe), wire::status::rejected, {"no room", "", "", ""});
  try {
    (void)made.get();
    FAIL() << "it was made";
  } catch (const request_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no room"));
  }
}

TEST_F(Subscription, ClosingItUnsubscribesAndEndsTheWait) {
  connect();
  subscription made = subscribe();
  auto waiting = std::async(std::launch::async, [&] { return made.next(); });
  made.close();
  EXPECT_FALSE(waiting.get());
  EXPECT_TRUE(made.ended());
  EXPECT_EQ(daemon_.expect(message_type::unsubscribe).header.request_id, asked_.header.request_id);
}

TEST_F(Subscription, GoesOnOverAnotherConnectionAndCountsWhatWasMissed) {
  connect();
  subscription made = subscribe();
  tell(source_);
  publish(0, 1.0F);
  ASSERT_TRUE(made.next(long_enough));
  const std::uint64_t id = asked_.header.request_id;
  daemon_.break_connections();
  await_resubscription();
  EXPECT_EQ(asked_.header.request_id, id);
  grant(7);
  tell(source_);
  publish(7, 2.0F);
  const auto next = made.next(long_enough);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->lost, 6U);
}

TEST_F(Subscription, IsMadeAgainAfterARestartAndSaysSo) {
  connect();
  subscription made = subscribe();
  tell(source_);
  publish(5, 1.0F);
  ASSERT_TRUE(made.next(long_enough));
  daemon_.restart();
  await_resubscription();
  grant();
  tell(source_);
  publish(0, 2.0F);
  const auto next = made.next(long_enough);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->restarted);
  EXPECT_EQ(next->lost, 0U);
}

TEST_F(Subscription, EndsWithTheReasonWhenTheDaemonDoesNotTakeItAgain) {
  connect();
  subscription made = subscribe();
  daemon_.restart();
  await_resubscription();
  daemon_.error(asked_, wire::status::unknown_pipeline, {"it is gone", "", "", ""});
  try {
    (void)made.next(long_enough);
    FAIL() << "something came";
  } catch (const request_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("it is gone"));
  }
  EXPECT_FALSE(made.next(long_enough));
  EXPECT_TRUE(made.ended());
}

TEST_F(Subscription, MessagesThatCannotBeReadAreCounted) {
  connect();
  subscription made = subscribe();
  wire::publisher two = source_;
  two.outputs = {"sum", "more"};
  tell(two);
  publish(0, 1.0F);  // one tensor
  tell(source_);
  publish(1, 2.0F);
  const auto next = made.next(long_enough);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->lost, 1U);
  EXPECT_EQ(client_->counters().malformed_replies, 1U);
}

}  // namespace
}  // namespace penstock::test
