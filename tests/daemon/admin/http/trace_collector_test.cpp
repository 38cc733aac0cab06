#include "daemon/admin/http/trace_collector.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock::testing {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::int64_t now_ns = 3'600'000'000'000;

json batch(std::uint64_t number, std::chrono::nanoseconds ago) {
  json made = json::parse(R"({"pipeline": 0, "slot": 1, "close": "full", "frames": 32, "requests": 1,
    "times": [-90000, -80000, -1000, 40000, 45000], "streams": [0], "refs": [[-90000, 4, 1001, 0, 0, 0]]})");
  made["n"] = number;
  made["at"] = now_ns - ago.count();
  return made;
}

// A page with these batches and, in something that nobody reads, so many bytes.
timeline_page page(std::uint32_t shard, const std::vector<json>& batches, std::uint64_t next, std::size_t bytes = 0) {
  json made = json::parse(R"({"device": "a device", "pipelines": {"0": {"name": "spectrum", "steps": []}}})");
  made["now_ns"] = now_ns;
  made["shard"] = shard;
  made["batches"] = batches;
  made["padding"] = std::string(bytes, ' ');
  return {made.dump(), next};
}

class TraceCollector : public ::testing::Test {
 protected:
  // Runs it to its end, the shards answering in turn with these rounds.
  json collect(std::chrono::nanoseconds last, std::vector<timeline_answers> rounds) {
    rounds_ = std::move(rounds);
    std::string made;
    traces_.collect(rounds_.at(0).size(), last, [&](std::string text) { made = std::move(text); });
    auto work = boost::asio::make_work_guard(admin_);
    while (traces_.is_busy()) {
      admin_.run_one();
    }
    return made.empty() ? json() : json::parse(made).at("traceEvents");
  }
  static std::size_t count(const json& events, const std::string& name) {
    std::size_t found = 0;
    for (const json& each : events) {
      found += each.at("name") == name ? 1U : 0U;
    }
    return found;
  }

  boost::asio::io_context admin_{1};
  std::vector<timeline_answers> rounds_;
  std::vector<trace_collector::cursors> asked_;
  trace_collector traces_{admin_, [this](const auto& cursors, const auto& done) {
                            asked_.push_back(cursors);
                            done(rounds_.at(asked_.size() - 1));
                          }};
};

TEST_F(TraceCollector, AsksOnForAsLongAsPagesAreFull) {
  constexpr std::size_t full = 60'000;
  const json events = collect(5s, {{page(0, {batch(1, 1s)}, 2, full), page(1, {batch(1, 1s)}, 2)},
                                   {page(0, {batch(2, 500ms)}, 3), timeline_page()}});
  EXPECT_EQ(count(events, "spectrum 1"), 2U);
  EXPECT_EQ(count(events, "spectrum 2"), 1U);
  EXPECT_EQ(count(events, "process_name"), 2U);
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_EQ(asked_[0], (trace_collector::cursors{0, 0}));
  EXPECT_EQ(asked_[1], (trace_collector::cursors{2, std::nullopt}));
}

TEST_F(TraceCollector, LeavesOutWhatIsTooOld) {
  const json events = collect(1s, {{page(0, {batch(1, 2s), batch(2, 500ms)}, 3)}});
  EXPECT_EQ(count(events, "spectrum 1"), 0U);
  EXPECT_EQ(count(events, "spectrum 2"), 1U);
  EXPECT_EQ(count(events, "batched"), 2U) << "both ends of the arrow";
}

TEST_F(TraceCollector, GoesOnWithoutAShardThatDoesNotAnswer) {
  const json events = collect(5s, {{std::nullopt, page(1, {batch(1, 1s)}, 2)}});
  EXPECT_EQ(count(events, "spectrum 1"), 1U);
}

TEST_F(TraceCollector, LetsGoOfTheOldestWhenThereIsTooMuch) {
  constexpr std::size_t full = 60'000;
  constexpr std::uint64_t last = 700;
  std::vector<timeline_answers> rounds;
  for (std::uint64_t number = 1; number <= last; ++number) {
    rounds.push_back({page(0, {batch(number, 1s)}, number + 1, number == last ? 0 : full)});
  }
  const json events = collect(5s, std::move(rounds));
  EXPECT_EQ(count(events, "spectrum 1"), 0U);
  EXPECT_EQ(count(events, "spectrum 700"), 1U);
}

TEST_F(TraceCollector, SaysNothingOfPagesThatCannotBeRead) {
  EXPECT_TRUE(collect(5s, {{timeline_page{"{", 1}}}).is_null());
}

}  // namespace
}  // namespace penstock::testing
