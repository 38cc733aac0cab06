#include "tests/support/scheduler_rig.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

// One set of streams, as where every pipeline has the same priority; with several, each priority has its own.
std::vector<stream_class> classes_of(const std::vector<plan>& plans) {
  std::set<stream_class> all;
  for (const plan& each : plans) {
    all.insert(each.streams());
  }
  return {all.begin(), all.end()};
}

}  // namespace

void recorded_replies::result(const request& request, slot& slot) {
  note(request);
  recorded_reply made;
  const auto first = static_cast<std::size_t>(request.first_frame);
  const std::size_t frame = request.pipeline->output_spec(0).bytes(request.leading);
  const std::byte* const next =
      request.payload == payload_mode::rewritten
          ? slot.work.input
          : slot.pinned_output.get() + request.pipeline->outputs[0].pinned_offset + first * frame;
  made.next.assign(reinterpret_cast<const char*>(next), frame * request.frames);
  if (request.pipeline->outputs.size() > 1) {
    made.sums.resize(request.frames);
    std::memcpy(made.sums.data(),
                slot.pinned_output.get() + request.pipeline->outputs[1].pinned_offset + first * sizeof(std::int32_t),
                request.frames * sizeof(std::int32_t));
  }
  if (request.pipeline->keeps_state()) {
    made.totals.resize(request.frames);
    std::memcpy(made.totals.data(),
                slot.pinned_output.get() + request.pipeline->outputs[2].pinned_offset + first * sizeof(std::int32_t),
                request.frames * sizeof(std::int32_t));
  }
  if (lend && request.payload != payload_mode::rewritten) {
    slot.references.fetch_add(1);
    lent.push_back({&slot, next, made.next});
  }
  all[{request.client->identity, request.id}].push_back(std::move(made));
}

void recorded_replies::error(const request& request, wire::status code, const wire::error_body& why) {
  note(request);
  all[{request.client->identity, request.id}].push_back({code, why, {}, {}, {}});
}

void recorded_replies::note(const request& request) {
  ++count;
  order.emplace_back(request.client->identity, request.id);
  EXPECT_TRUE(all[order.back()].empty()) << "a second reply to " << request.client->identity << "'s request "
                                         << request.id;
}

namespace {

manual_device& told(manual_device& device, const rig_shape& shape) {
  device.read_payloads_from(shape.in_place_bytes);
  device.run_inline_up_to(shape.inline_steps != 0 ? std::chrono::hours{1} : std::chrono::hours{0});
  return device;
}

}  // namespace

scheduler_rig::scheduler_rig(const rig_shape& shape, const std::vector<plan_wish>& wishes)
    : plans(hand_made_plans(wishes)),
      slots(device, shape.slots, size_for(plans), shape.mode == completion_mode::poll, completed, signal),
      states(device, plans, shape.max_sessions),
      clocks(device, plans, shape.timing.batches_per_second == 0 ? 0 : shape.slots),
      streams(told(device, shape), shape.streams, classes_of(plans), shape.mode, states),
      clients(64, shape.credits),
      sessions(shape.max_sessions, std::chrono::minutes{10}, 1),
      tracker(plans.size(), replied, counters),
      timeline(device, clocks, plans, shape.slots, shape.timing, [this] { return now; }),
      scheduling(plans, slots, streams, completed, tracker, payloads, timeline) {
  for (const plan& each : plans) {
    streams.set_inline_steps(each.place, shape.inline_steps);
  }
}

scheduler_rig::~scheduler_rig() {
  drop_lent();
}

client_record& scheduler_rig::client(const std::string& name) {
  return *clients.admit(name, now);
}

session_record& scheduler_rig::session(const std::string& name, const std::string& owner, std::uint32_t pipeline) {
  return *sessions.open(client(owner), plans.at(pipeline), name, now);
}

request& scheduler_rig::submit(std::uint64_t id, const rig_request& asked, const std::string& sender) {
  const plan& pipeline = plans.at(asked.pipeline);
  const std::int64_t leading = asked.leading > 0 ? asked.leading : pipeline.input().shape.front();
  const std::size_t bytes = asked.frames * pipeline.input().bytes(leading);
  sent& kept = sent_[{sender, id}];
  kept = {payload_of(bytes, id * 977 + asked.frames), {}, {}};
  if (pipeline.outputs.size() > 1) {
    kept.sums = sums_of(kept.payload, asked.frames);
  }
  if (pipeline.keeps_state()) {
    std::uint32_t& total = totals_[asked.session->number];
    for (const std::int32_t each : kept.sums) {
      total += static_cast<std::uint32_t>(each);
      kept.totals.push_back(static_cast<std::int32_t>(total));
    }
  }
  unchecked_.emplace_back(sender, id);
  wire::message_header header;
  header.request_id = id;
  header.frames = asked.frames;
  header.timeout_ns = static_cast<std::uint64_t>(asked.timeout.count());
  request& made = tracker.open(
      client(sender), header,
      {.pipeline = &pipeline, .session = asked.session, .leading = leading, .bytes = bytes, .shared = {}}, now);
  if (scheduling.submit(made, std::as_bytes(std::span(kept.payload))) != submit_outcome::batched) {
    payloads.park(made.index, kept.payload);
  }
  return made;
}

void scheduler_rig::settle() {
  while (scheduling.turn(now)) {
  }
}

void scheduler_rig::finish(std::size_t stream) {
  device.finish(stream);
  settle();
}

void scheduler_rig::expire() {
  while (request* const due = tracker.due(now)) {
    scheduling.end(*due, wire::status::expired, "too late");
  }
}

void scheduler_rig::drop_lent() {
  for (const recorded_replies::lent_output& each : replied.lent) {
    EXPECT_EQ(std::memcmp(each.at, each.bytes.data(), each.bytes.size()), 0) << "a lent output was written over";
    slot_ring::drop(*each.from);
  }
  replied.lent.clear();
}

recorded_reply scheduler_rig::reply(std::uint64_t id, const std::string& sender) {
  const std::vector<recorded_reply>& all = replied.all[{sender, id}];
  EXPECT_EQ(all.size(), 1U) << "replies to " << sender << "'s request " << id;
  return all.size() == 1 ? all.front() : recorded_reply{};
}

std::size_t scheduler_rig::replies(std::uint64_t id, const std::string& sender) {
  return replied.all[{sender, id}].size();
}

std::string scheduler_rig::payload(std::uint64_t id, const std::string& sender) const {
  return sent_.at({sender, id}).payload;
}

std::uint64_t scheduler_rig::closed(close_reason why, std::uint32_t pipeline) {
  return tracker.of_pipeline(pipeline).closed[static_cast<std::size_t>(why)];
}

void scheduler_rig::check() {
  EXPECT_TRUE(counters.requests.balanced());
  EXPECT_EQ(counters.requests.accepted, replied.count + counters.requests.in_flight);
  outcome_account total;
  for (const pipeline_account& each : tracker.by_pipeline()) {
    EXPECT_TRUE(each.requests.balanced());
    total.accepted += each.requests.accepted;
    total.results += each.requests.results;
    total.in_flight += each.requests.in_flight;
  }
  EXPECT_EQ(total.accepted, counters.requests.accepted);
  EXPECT_EQ(total.results, counters.requests.results);
  EXPECT_EQ(total.in_flight, counters.requests.in_flight);
  std::erase_if(unchecked_, [&](const recorded_replies::key& key) {
    const std::vector<recorded_reply>& replies = replied.all[key];
    if (!replies.empty() && replies.front().code == wire::status::ok) {
      const sent& request = sent_.at(key);
      EXPECT_EQ(replies.front().next, next_of(request.payload)) << key.first << "'s request " << key.second;
      EXPECT_EQ(replies.front().sums, request.sums) << key.first << "'s request " << key.second;
      EXPECT_EQ(replies.front().totals, request.totals) << key.first << "'s request " << key.second;
    }
    return !replies.empty();
  });
}

void scheduler_rig::end_in_peace() {
  replied.lend = false;
  for (int round = 0; round < 1000 && (counters.requests.in_flight + payloads.size() > 0 || !scheduling.idle());
       ++round) {
    drop_lent();
    settle();
    device.finish_all();
    settle();
    now += std::chrono::milliseconds{1};
  }
  drop_lent();
  settle();
  check();
  EXPECT_EQ(counters.requests.in_flight, 0U);
  EXPECT_EQ(slots.free(), slots.size()) << "a slot is lost";
  EXPECT_EQ(payloads.size(), 0U);
  EXPECT_TRUE(scheduling.idle());
  EXPECT_EQ(streams.in_flight(), 0U);
  EXPECT_EQ(tracker.next_deadline(), never);
  for (const auto& [name, id] : replied.order) {
    const client_record& each = client(name);
    EXPECT_EQ(each.requests + each.bytes + each.references, 0U) << name;
    EXPECT_EQ(each.abandoned_requests + each.abandoned_bytes, 0U) << name;
  }
}

}  // namespace penstock::testing
