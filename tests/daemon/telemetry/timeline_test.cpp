#include "daemon/telemetry/timeline.hpp"

#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "proto/message.hpp"
#include "tests/daemon/shard/shard_rig.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/start.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::start;
constexpr std::int64_t start_ns = 3'600'000'000'000;

TEST(RecentBatches, NumbersBatchesFromOneAndHasNoneAtFirst) {
  recent_batches kept(4, 3, 2);
  EXPECT_EQ(kept.oldest(), kept.next());
  EXPECT_FALSE(kept.has(0));
  EXPECT_FALSE(kept.has(1));
  EXPECT_EQ(kept.add().record.number, 1U);
  EXPECT_TRUE(kept.has(1));
  EXPECT_FALSE(kept.has(2));
}

TEST(RecentBatches, KeepsTheLastOnesWhenItWraps) {
  recent_batches kept(4, 3, 2);
  for (std::uint32_t each = 1; each <= 11; ++each) {
    const recent_batches::kept_batch added = kept.add();
    added.record.frames = each;
    added.record.references = 1;
    added.references[0].id = each * 10;
    added.record.steps = each % 2 == 0 ? 3 : 0;
    added.steps[2].end = std::chrono::nanoseconds{each};
    added.record.streams = 2;
    added.streams[1] = each * 100;
  }
  EXPECT_EQ(kept.oldest(), 8U);
  EXPECT_EQ(kept.next(), 12U);
  EXPECT_FALSE(kept.has(7));
  for (std::uint32_t each = 8; each <= 11; ++each) {
    const recent_batches::kept_batch found = kept.at(each);
    EXPECT_EQ(found.record.number, each);
    EXPECT_EQ(found.record.frames, each);
    ASSERT_EQ(found.references.size(), 1U);
    EXPECT_EQ(found.references[0].id, each * 10);
    ASSERT_EQ(found.streams.size(), 2U);
    EXPECT_EQ(found.streams[1], each * 100);
    ASSERT_EQ(found.steps.size(), each % 2 == 0 ? 3U : 0U);
    if (!found.steps.empty()) {
      EXPECT_EQ(found.steps[2].end.count(), each);
    }
  }
}

TEST(RecentBatches, ForgetsWhatStoodInThePlaceBefore) {
  recent_batches kept(1, 1, 1);
  kept.add().record.failed = true;
  const recent_batches::kept_batch second = kept.add();
  EXPECT_FALSE(second.record.failed);
  EXPECT_EQ(second.record.returned, never);
  EXPECT_EQ(second.references.size(), recent_batches::most_references);
}

class TimelinePages : public ::testing::Test {
 protected:
  recent_batches::kept_batch add(std::uint32_t pipeline, std::uint32_t references = 1, bool timed = true) {
    const recent_batches::kept_batch added = kept_.add();
    batch_record& what = added.record;
    what.pipeline = pipeline;
    what.slot = 3;
    what.reason = close_reason::full;
    what.frames = 32;
    what.requests = references + 5;
    what.references = references;
    what.streams = 1;
    what.steps = timed ? 5 : 0;
    what.launched = start;
    what.oldest = start - 90us;
    what.opened = start - 80us;
    what.closed = start - 1us;
    what.completed = start + 40us;
    what.returned = start + 41us;
    added.streams[0] = 2;
    for (std::size_t step = 0; step < added.steps.size(); ++step) {
      added.steps[step] = {step * 10us, step * 10us + 9us};
    }
    for (std::uint32_t each = 0; each < references; ++each) {
      added.references[each] = {
          .client = 4, .session = 77, .id = 1000 + each, .sequence = 12, .trace_id = {}, .received = start - 90us};
    }
    return added;
  }
  [[nodiscard]] json page(std::uint64_t cursor, std::uint64_t& next) {
    const timeline_page made = pages_.write(kept_, cursor, start + 1s);
    EXPECT_LE(made.json.size(), wire::max_body_bytes);
    next = made.next;
    return json::parse(made.json);
  }
  // The numbers of all batches on all pages.
  [[nodiscard]] std::vector<std::uint64_t> numbers_from(std::uint64_t cursor) {
    std::vector<std::uint64_t> all;
    while (true) {
      const json read = page(cursor, cursor);
      if (read.at("batches").empty()) {
        return all;
      }
      for (const json& each : read.at("batches")) {
        all.push_back(each.at("n").get<std::uint64_t>());
        EXPECT_TRUE(read.at("pipelines").contains(std::to_string(each.at("pipeline").get<int>())));
      }
    }
  }

  std::vector<plan> plans_ = testing::hand_made_plans({{}, {}, {}});
  recent_batches kept_{1000, 5, 1};
  timeline_pages pages_{{1, "a \"good\" device", 8, 16}, plans_};
};

TEST_F(TimelinePages, SayAllThatIsKeptOfABatch) {
  recent_batches::kept_batch added = add(1);
  added.references[0].trace_id[15] = std::byte{0xab};
  added.references[0].ended_early = true;
  std::uint64_t next = 0;
  const json read = page(0, next);
  EXPECT_EQ(next, 2U);
  EXPECT_EQ(read.at("now_ns"), start_ns + 1'000'000'000);
  EXPECT_EQ(read.at("shard"), 1);
  EXPECT_EQ(read.at("device"), "a \"good\" device");
  EXPECT_EQ(read.at("streams"), 8);
  EXPECT_EQ(read.at("slots"), 16);
  EXPECT_EQ(read.at("pipelines"), json::parse(R"({"1": {"name": "pipeline1", "steps": [["copy in", 0], ["next", 0],
    ["sum", 0], ["copy out next", 0], ["copy out sum", 0]]}})"));
  EXPECT_EQ(read.at("batches"), json::parse(R"([{"n": 1, "pipeline": 1, "slot": 3, "close": "full", "frames": 32,
    "requests": 6, "at": 3600000000000, "times": [-90000, -80000, -1000, 40000, 41000], "streams": [2],
    "steps": [[0, 9000], [10000, 19000], [20000, 29000], [30000, 39000], [40000, 49000]],
    "refs": [[-90000, 4, 1000, 77, 12, 1, "000000000000000000000000000000ab"]]}])"));
}

TEST_F(TimelinePages, LeaveOutWhatIsNotKnown) {
  recent_batches::kept_batch added = add(0, 0, false);
  added.record.returned = never;
  added.record.failed = true;
  std::uint64_t next = 0;
  const json batch = page(0, next).at("batches").at(0);
  EXPECT_TRUE(batch.at("times").at(4).is_null());
  EXPECT_FALSE(batch.contains("steps"));
  EXPECT_TRUE(batch.at("failed").get<bool>());
  EXPECT_TRUE(batch.at("refs").empty());
}

TEST_F(TimelinePages, BringEveryBatchOnceInItsOrder) {
  std::vector<std::uint64_t> expected;
  for (std::uint32_t each = 0; each < 700; ++each) {
    add(each % 3, recent_batches::most_references);
    expected.push_back(each + 1);
  }
  EXPECT_EQ(numbers_from(0), expected);
  expected.erase(expected.begin(), expected.begin() + 499);
  EXPECT_EQ(numbers_from(500), expected);
}

TEST_F(TimelinePages, GoOnWithWhatIsNewer) {
  add(0);
  std::uint64_t next = 0;
  EXPECT_EQ(page(0, next).at("batches").size(), 1U);
  EXPECT_TRUE(page(next, next).at("batches").empty());
  EXPECT_EQ(next, 2U);
  add(0);
  EXPECT_EQ(page(next, next).at("batches").at(0).at("n"), 2);
}

TEST_F(TimelinePages, BeginWithTheOldestWhereTheCursorIsNotKnown) {
  for (std::uint32_t each = 0; each < 1500; ++each) {
    add(0, 0, false);
  }
  std::uint64_t next = 0;
  EXPECT_EQ(page(3, next).at("batches").at(0).at("n"), 501);
  // From before a restart.
  EXPECT_EQ(page(1'000'000, next).at("batches").at(0).at("n"), 501);
  EXPECT_TRUE(page(1501, next).at("batches").empty());
}

TEST_F(TimelinePages, LeaveOutStepsThatDoNotFit) {
  std::vector<plan> plans = testing::hand_made_plans({{}});
  plans[0].stages[0].name = std::string(30'000, 'x');
  const timeline_pages pages({}, plans);
  add(0);
  const json read = json::parse(pages.write(kept_, 0, start).json);
  EXPECT_TRUE(read.at("pipelines").at("0").at("steps").empty());
  EXPECT_FALSE(read.at("batches").at(0).contains("steps"));
}

testing::raw_message ask(testing::raw_peer& peer, std::uint64_t cursor) {
  wire::message_header header;
  header.type = wire::message_type::get_trace;
  header.request_id = 555;
  header.sequence = cursor;
  peer.send({testing::bytes_of(header)});
  return peer.receive().value();
}

TEST(TraceReply, TellsOfRequestsThatWereAnsweredAndGoesOnFromItsCursor) {
  testing::shard_rig rig;
  testing::guest client(rig);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    client.submit(id);
    ASSERT_EQ(client.next().header.type, wire::message_type::result);
  }
  const testing::raw_message page = ask(client, 0);
  EXPECT_EQ(page.header.type, wire::message_type::trace_report);
  EXPECT_EQ(page.header.request_id, 555U);
  std::set<std::uint64_t> told;
  const nlohmann::json body = page.json();
  for (const nlohmann::json& batch : body.at("batches")) {
    for (const nlohmann::json& request : batch.at("refs")) {
      told.insert(request.at(2).get<std::uint64_t>());
    }
  }
  EXPECT_TRUE(body.at("batches").at(0).contains("steps"));
  EXPECT_EQ(told, (std::set<std::uint64_t>{1, 2, 3, 4, 5}));
  const testing::raw_message rest = ask(client, page.header.sequence);
  EXPECT_TRUE(rest.json().at("batches").empty());
  EXPECT_EQ(rest.header.sequence, page.header.sequence);
}

TEST(TraceReply, IsForClientsOnly) {
  testing::shard_rig rig;
  testing::raw_peer stranger(rig.endpoint());
  const testing::raw_message got = ask(stranger, 0);
  EXPECT_EQ(got.header.type, wire::message_type::error);
  EXPECT_EQ(got.header.code, wire::status::hello_required);
}

}  // namespace
}  // namespace penstock
