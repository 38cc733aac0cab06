#include "proto/chrome_trace.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::int64_t start_ns = 3'600'000'000'000;

json page_of(std::uint32_t shard, const std::vector<json>& batches) {
  json page = json::parse(R"({"device": "a device", "streams": 2, "slots": 4, "pipelines": {"0": {"name": "spectrum",
    "steps": [["copy in", 0], ["iq", 0], ["psd", 1], ["copy out psd", 1]]}}})");
  page["now_ns"] = start_ns + 1'000'000'000;
  page["shard"] = shard;
  page["batches"] = batches;
  return page;
}

json batch_of(std::uint64_t number, std::int64_t at_ns, bool timed = true) {
  json made = json::parse(R"({"pipeline": 0, "slot": 1, "close": "full", "frames": 32, "requests": 2,
    "times": [-90000, -80000, -1000, 40000, 45000], "streams": [0, 1],
    "refs": [[-90000, 4, 1001, 77, 12, 0, "000000000000000000000000000000ab"], [-70000, 5, 2001, 0, 0, 1]],
    "steps": [[1000, 9000], [10000, 20000], [12000, 30000], [30000, 35000]]})");
  made["n"] = number;
  made["at"] = at_ns;
  if (!timed) {
    made.erase("steps");
  }
  return made;
}

json written(const chrome_trace& what) {
  std::ostringstream out;
  what.write(out);
  return json::parse(out.str()).at("traceEvents");
}

json events(const json& all, const std::string& phase, const std::string& category = "") {
  json found = json::array();
  for (const json& each : all) {
    if (each.at("ph") == phase && (category.empty() || each.value("cat", "") == category)) {
      found.push_back(each);
    }
  }
  return found;
}

struct span {
  std::int64_t begin_ns;
  std::int64_t end_ns;
};

// As Perfetto reads it: microseconds times 1000, cut.
span span_of(const json& event) {
  const auto begin = static_cast<std::int64_t>(event.at("ts").get<double>() * 1000);
  return {begin, begin + static_cast<std::int64_t>(event.at("dur").get<double>() * 1000)};
}

using track = std::pair<int, std::uint64_t>;

track track_of(const json& event) {
  return {event.at("pid").get<int>(), event.at("tid").get<std::uint64_t>()};
}

// What the format's readers ask for: every slice has its fields and does not end before it begins; two slices of one
// track lie in one another or apart; every track has one name; each flow begins in a slice, ends in one, and not
// before.
void expect_sound(const json& all) {
  std::map<track, std::vector<span>> slices;
  for (const json& each : events(all, "X")) {
    EXPECT_TRUE(each.at("name").is_string());
    EXPECT_GE(each.at("ts").get<double>(), 0);
    EXPECT_GE(each.at("dur").get<double>(), 0);
    slices[track_of(each)].push_back(span_of(each));
  }
  for (const auto& [where, spans] : slices) {
    for (std::size_t left = 0; left < spans.size(); ++left) {
      for (std::size_t right = left + 1; right < spans.size(); ++right) {
        const span& a = spans[left];
        const span& b = spans[right];
        const bool apart = a.end_ns <= b.begin_ns || b.end_ns <= a.begin_ns;
        const bool nested =
            (a.begin_ns <= b.begin_ns && b.end_ns <= a.end_ns) || (b.begin_ns <= a.begin_ns && a.end_ns <= b.end_ns);
        ASSERT_TRUE(apart || nested) << "track " << where.second << ": " << a.begin_ns << "–" << a.end_ns << " and "
                                     << b.begin_ns << "–" << b.end_ns;
      }
    }
  }
  std::map<track, int> names;
  for (const json& each : events(all, "M")) {
    if (each.at("name") == "thread_name") {
      ++names[track_of(each)];
    }
  }
  for (const auto& [where, spans] : slices) {
    EXPECT_EQ(names[where], 1) << "names of track " << where.second;
  }
  const auto in_a_slice = [&](const json& end) {
    const auto when = static_cast<std::int64_t>(end.at("ts").get<double>() * 1000);
    const std::vector<span>& spans = slices[track_of(end)];
    return std::any_of(spans.begin(), spans.end(),
                       [&](const span& each) { return each.begin_ns <= when && when <= each.end_ns; });
  };
  std::map<std::uint64_t, json> begins;
  for (const json& each : events(all, "s")) {
    EXPECT_TRUE(begins.emplace(each.at("id").get<std::uint64_t>(), each).second) << "two flows with one id";
    EXPECT_TRUE(in_a_slice(each));
  }
  const json ends = events(all, "f");
  EXPECT_EQ(ends.size(), begins.size());
  for (const json& each : ends) {
    const auto begin = begins.find(each.at("id").get<std::uint64_t>());
    ASSERT_NE(begin, begins.end());
    EXPECT_LE(begin->second.at("ts").get<double>(), each.at("ts").get<double>());
    EXPECT_TRUE(in_a_slice(each));
    EXPECT_EQ(each.at("bp"), "e");
    begins.erase(begin);
  }
}

TEST(ChromeTrace, PutsStepsOnStreamsBatchesOnSlotsAndRequestsOnTheirPipeline) {
  chrome_trace trace;
  trace.add(page_of(0, {batch_of(1, start_ns)}).dump());
  const json all = written(trace);
  expect_sound(all);
  const json steps = events(all, "X", "step");
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[1].at("name"), "iq");
  EXPECT_EQ(steps[1].at("ts"), 100.0);  // 10 µs after the launch, 90 µs after the first request
  EXPECT_EQ(steps[1].at("dur"), 10.0);
  EXPECT_EQ(steps[1].at("args"), (json{{"pipeline", "spectrum"}, {"batch", 1}, {"frames", 32}}));
  EXPECT_EQ(track_of(steps[0]), track_of(steps[1]));
  EXPECT_NE(track_of(steps[1]), track_of(steps[2]));
  std::map<std::string, std::pair<double, double>> life;
  for (const json& each : events(all, "X", "batch")) {
    life[each.at("name")] = {each.at("ts").get<double>(), each.at("dur").get<double>()};
  }
  EXPECT_EQ(life, (std::map<std::string, std::pair<double, double>>{{"spectrum 1", {10, 125}},
                                                                    {"filling", {10, 79}},
                                                                    {"waiting", {89, 1}},
                                                                    {"on device", {90, 40}},
                                                                    {"replying", {130, 5}}}));
  const json requests = events(all, "X", "request");
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].at("name"), "request 1001");
  EXPECT_EQ(requests[0].at("args").at("trace_id"), "000000000000000000000000000000ab");
  EXPECT_EQ(requests[1].at("name"), "request 2001, answered before its batch");
  EXPECT_EQ(events(all, "s").size(), 2U);
}

TEST(ChromeTrace, PutsBatchesThatWereNotTimedOnSlotsOnly) {
  chrome_trace trace;
  trace.add(page_of(0, {batch_of(1, start_ns, false)}).dump());
  const json all = written(trace);
  expect_sound(all);
  EXPECT_TRUE(events(all, "X", "step").empty());
  EXPECT_EQ(events(all, "X", "batch").size(), 5U);
}

TEST(ChromeTrace, GivesEachShardAProcess) {
  chrome_trace trace;
  trace.add(page_of(0, {batch_of(1, start_ns)}).dump());
  trace.add(page_of(3, {batch_of(1, start_ns)}).dump());
  const json all = written(trace);
  expect_sound(all);
  std::map<int, std::string> processes;
  for (const json& each : events(all, "M")) {
    if (each.at("name") == "process_name") {
      processes[each.at("pid").get<int>()] = each.at("args").at("name").get<std::string>();
    }
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{0, "shard 0: a device"}, {3, "shard 3: a device"}}));
}

// Odd nanoseconds everywhere, steps of one stream that overlap a little, zero-length phases, and many requests at once.
TEST(ChromeTrace, IsSoundWhateverTheTimesAre) {
  std::mt19937_64 random(5);
  const auto pick = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  std::vector<json> batches;
  std::int64_t slot_free = start_ns;
  for (std::uint64_t number = 1; number <= 60; ++number) {
    const std::int64_t opened = slot_free + pick(3'000);
    const std::int64_t closed = opened + pick(20'000);
    const std::int64_t at = closed + pick(1) * pick(9'000);
    const std::int64_t completed = at + pick(50'000);
    json batch = batch_of(number, at);
    batch["times"] = json::array({opened - at - pick(9'999), opened - at, closed - at, completed - at,
                                  pick(3) == 0 ? json() : json(completed - at + pick(5'000))});
    slot_free = completed + 5'001;
    std::int64_t step = pick(2'000) - 1'000;
    for (json& each : batch["steps"]) {
      const std::int64_t end = step + pick(12'345);
      each = json::array({step, end});
      step = end - pick(100);
    }
    for (json& each : batch["refs"]) {
      each[0] = opened - at - pick(200'000);
    }
    batches.push_back(std::move(batch));
  }
  chrome_trace trace;
  trace.add(page_of(0, batches).dump());
  expect_sound(written(trace));
}

TEST(ChromeTrace, KeepsWhatWasCompletedSince) {
  chrome_trace trace;
  trace.add(page_of(0, {batch_of(1, start_ns), batch_of(2, start_ns + 1'000'000)}).dump());
  EXPECT_EQ(trace.last_page().batches, 2U);
  EXPECT_EQ(trace.last_page().newest_ns, start_ns + 1'040'000);
  EXPECT_EQ(trace.last_page().now_ns, start_ns + 1'000'000'000);
  trace.keep_since(start_ns + 40'001);
  ASSERT_EQ(trace.batches().size(), 1U);
  EXPECT_EQ(trace.batches()[0].number, 2U);
}

TEST(ChromeTrace, IsSoundWithoutBatches) {
  chrome_trace trace;
  trace.add(page_of(0, {}).dump());
  expect_sound(written(trace));
  EXPECT_EQ(trace.last_page().batches, 0U);
}

TEST(ChromeTrace, RefusesWhatIsNoTimeline) {
  json stray = batch_of(1, start_ns);
  stray["pipeline"] = 9;
  json long_steps = batch_of(1, start_ns);
  long_steps["steps"].push_back(json::array({1, 2}));
  json lost_stream = batch_of(1, start_ns);
  lost_stream["streams"] = json::array({0});
  for (const std::string& page :
       {std::string("{"), std::string("{}"), std::string(R"({"batches":[]})"), page_of(0, {stray}).dump(),
        page_of(0, {long_steps}).dump(), page_of(0, {lost_stream}).dump()}) {
    chrome_trace trace;
    EXPECT_THROW(trace.add(page), std::runtime_error) << page;
  }
}

}  // namespace
}  // namespace penstock
