#include "client/cli/shard_timeline.hpp"

#include <future>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/client/scripted_daemon.hpp"

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::received;
using test::scripted_daemon;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::message_type;

constexpr std::int64_t now_ns = 9'000'000;

/// When each is completed: its number in milliseconds.
json batch(std::uint64_t number) {
  return {{"n", number},
          {"pipeline", 0},
          {"slot", 0},
          {"close", "idle"},
          {"frames", 1},
          {"requests", 20},
          {"at", number * 1'000'000},
          {"times", {-3, -2, -1, 0, 0}},
          {"streams", json::array()},
          {"refs", {{-3, 1, 7, 0, 0, 0}}}};
}

/// Two shards, each a daemon that the test plays.
class ShardTimeline : public ::testing::Test {
 protected:
  ShardTimeline() {
    first_.offer().shards = {{first_.url()}, {second_.url()}};
    first_.offer().shard = 1;
    second_.offer() = first_.offer();
    second_.offer().answering = 1;
  }

  std::vector<shard_timeline> connect() {
    client_options options = test::quick_options();
    options.url = first_.url();
    auto connecting = std::async(std::launch::async, [&] { return timelines_of(options, 20s, complaints_); });
    first_.greet();
    if (second_listens_) {
      second_.greet();
    }
    return connecting.get();
  }

  /// Answers the next question with these batches. Its cursor.
  static std::uint64_t answer(scripted_daemon& as, const std::vector<json>& batches, std::uint64_t next_cursor) {
    const received question = as.await(message_type::get_trace);
    wire::message_header header;
    header.type = message_type::trace_report;
    header.request_id = question.header.request_id;
    header.sequence = next_cursor;
    const json page{{"now_ns", now_ns},
                    {"shard", as.offer().answering},
                    {"device", "a device"},
                    {"pipelines", {{"0", {{"name", "spectrum"}, {"steps", json::array()}}}}},
                    {"batches", batches}};
    as.send(question.peer, {test::header_part(header), page.dump()});
    return question.header.sequence;
  }

  /// Lets the timeline catch up with these pages, each a list of batches, of the first shard. Their cursors.
  std::vector<std::uint64_t> catch_up(shard_timeline& timeline, const std::vector<std::vector<std::uint64_t>>& pages) {
    auto catching = std::async(std::launch::async, [&] { timeline.catch_up(gathered_); });
    std::vector<std::uint64_t> cursors;
    for (const std::vector<std::uint64_t>& numbers : pages) {
      std::vector<json> batches;
      for (const std::uint64_t number : numbers) {
        batches.push_back(batch(number));
      }
      next_ = numbers.empty() ? next_ : numbers.back() + 1;
      cursors.push_back(answer(first_, batches, next_));
    }
    catching.get();
    return cursors;
  }

  scripted_daemon first_;
  scripted_daemon second_;
  bool second_listens_ = true;
  std::ostringstream complaints_;
  chrome_trace gathered_;
  std::uint64_t next_ = 1;
};

TEST_F(ShardTimeline, ThereIsOneOfEachShardAndNoneIsMoved) {
  std::vector<shard_timeline> all = connect();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(complaints_.str(), "");
  catch_up(all[0], {{1}, {}});
  auto catching = std::async(std::launch::async, [&] { all[1].catch_up(gathered_); });
  answer(second_, {batch(1)}, 2);
  answer(second_, {}, 2);
  catching.get();
  ASSERT_EQ(gathered_.batches().size(), 2U);
  EXPECT_EQ(gathered_.batches()[0].shard, 0U);
  EXPECT_EQ(gathered_.batches()[1].shard, 1U);
}

TEST_F(ShardTimeline, AShardThatCantBeReachedIsLeftOutAndTold) {
  first_.offer().shards[1] = {};
  second_listens_ = false;
  EXPECT_EQ(connect().size(), 1U);
  EXPECT_THAT(complaints_.str(), HasSubstr("shard 1 is left out"));
}

TEST_F(ShardTimeline, GoesOnWhereItWas) {
  std::vector<shard_timeline> all = connect();
  EXPECT_THAT(catch_up(all[0], {{1, 2}, {3}, {}}), ElementsAre(0, 3, 4));
  EXPECT_THAT(catch_up(all[0], {{4}, {}}), ElementsAre(4, 5));
  EXPECT_EQ(all[0].since_ns(), std::nullopt);
  EXPECT_EQ(all[0].missed(), 0U);
  EXPECT_EQ(all[0].now_ns(), now_ns);
}

TEST_F(ShardTimeline, KnowsSinceWhenItRemembersEverything) {
  std::vector<shard_timeline> all = connect();
  catch_up(all[0], {{3, 4}, {}});
  EXPECT_EQ(all[0].since_ns(), 3'000'000);
  EXPECT_EQ(all[0].missed(), 0U);
}

TEST_F(ShardTimeline, RemembersOnlyWhatIsBehindAGap) {
  std::vector<shard_timeline> all = connect();
  catch_up(all[0], {{1, 2}, {6}, {}});
  EXPECT_EQ(all[0].since_ns(), 6'000'000);
}

TEST_F(ShardTimeline, CountsWhatWasForgottenBetweenTwoLooks) {
  std::vector<shard_timeline> all = connect();
  catch_up(all[0], {{1, 2}, {}});
  catch_up(all[0], {{6}, {8}, {}});
  EXPECT_EQ(all[0].missed(), 4U);
  EXPECT_EQ(all[0].since_ns(), std::nullopt);
}

TEST_F(ShardTimeline, DoesNotFollowATimelineThatTurnsInACircle) {
  std::vector<shard_timeline> all = connect();
  auto catching = std::async(std::launch::async, [&] { all[0].catch_up(gathered_); });
  answer(first_, {batch(1)}, 2);
  answer(first_, {batch(1)}, 2);
  EXPECT_THROW(catching.get(), std::runtime_error);
}

}  // namespace
}  // namespace penstock::cli
