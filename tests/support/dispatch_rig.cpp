#include "tests/support/dispatch_rig.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

// One set of streams, as where every pipeline has the same priority; with several, each priority has its own.
std::vector<stream_priority> priorities_of(const std::vector<plan>& plans) {
  std::set<stream_priority> all;
  for (const plan& each : plans) {
    all.insert(each.declaration.priority);
  }
  return {all.begin(), all.end()};
}

}  // namespace

void recorded_replies::result(const request& of, slot& from) {
  note(of);
  recorded_reply made;
  const auto first = static_cast<std::size_t>(of.first_frame);
  const std::size_t frame = of.pipeline->output_spec(0).bytes(of.leading);
  const std::byte* const next = from.work.rewrites
                                    ? from.work.input
                                    : from.pinned_output.get() + of.pipeline->outputs[0].pinned_offset + first * frame;
  made.next.assign(reinterpret_cast<const char*>(next), frame * of.frames);
  if (of.pipeline->outputs.size() > 1) {
    made.sums.resize(of.frames);
    std::memcpy(made.sums.data(),
                from.pinned_output.get() + of.pipeline->outputs[1].pinned_offset + first * sizeof(std::int32_t),
                of.frames * sizeof(std::int32_t));
  }
  if (of.pipeline->keeps_state()) {
    made.totals.resize(of.frames);
    std::memcpy(made.totals.data(),
                from.pinned_output.get() + of.pipeline->outputs[2].pinned_offset + first * sizeof(std::int32_t),
                of.frames * sizeof(std::int32_t));
  }
  if (lend && !from.work.rewrites) {
    from.references.fetch_add(1);
    lent.push_back({&from, next, made.next});
  }
  all[{of.client->identity, of.id}].push_back(std::move(made));
}

void recorded_replies::error(const request& of, wire::status code, const wire::error_body& why) {
  note(of);
  all[{of.client->identity, of.id}].push_back({code, why, {}, {}, {}});
}

void recorded_replies::note(const request& of) {
  ++count;
  order.emplace_back(of.client->identity, of.id);
  EXPECT_TRUE(all[order.back()].empty()) << "a second reply to " << of.client->identity << "'s request " << of.id;
}

namespace {

manual_device& told(manual_device& which, const rig_shape& shape) {
  which.read_payloads_from(shape.in_place_bytes);
  which.run_inline_up_to(shape.inline_steps != 0 ? std::chrono::hours{1} : std::chrono::hours{0});
  return which;
}

}  // namespace

dispatch_rig::dispatch_rig(const rig_shape& shape, const std::vector<plan_wish>& wishes)
    : plans(hand_made_plans(wishes)),
      slots(device, shape.slots, size_for(plans), shape.mode == completion_mode::poll, completed, signal),
      states(device, plans, shape.max_sessions),
      clocks(device, plans, shape.timing.batches_per_second == 0 ? 0 : shape.slots),
      streams(told(device, shape), shape.streams, priorities_of(plans), shape.mode, states),
      clients(64, shape.credits),
      sessions(shape.max_sessions, std::chrono::minutes{10}, 1),
      book(plans.size(), replied, counters),
      timeline(device, clocks, plans, shape.slots, shape.timing, [this] { return now; }),
      path(plans, slots, streams, completed, book, payloads, timeline) {
  for (const plan& each : plans) {
    streams.set_brief(each.place, shape.inline_steps);
  }
}

dispatch_rig::~dispatch_rig() {
  drop_lent();
}

client_record& dispatch_rig::client(const std::string& name) {
  return *clients.admit(name, now);
}

session_record& dispatch_rig::session(const std::string& name, const std::string& of, std::uint32_t pipeline) {
  return *sessions.open(client(of), plans.at(pipeline), name, now);
}

request& dispatch_rig::submit(std::uint64_t id, const rig_request& asked, const std::string& from) {
  const plan& pipeline = plans.at(asked.pipeline);
  const std::int64_t leading = asked.leading > 0 ? asked.leading : pipeline.input().shape.front();
  const std::size_t bytes = asked.frames * pipeline.input().bytes(leading);
  sent& kept = sent_[{from, id}];
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
  unchecked_.emplace_back(from, id);
  wire::message_header header;
  header.request_id = id;
  header.frames = asked.frames;
  header.timeout_ns = static_cast<std::uint64_t>(asked.timeout.count());
  request& made = book.open(
      client(from), header,
      {.pipeline = &pipeline, .session = asked.session, .leading = leading, .bytes = bytes, .shared = {}}, now);
  if (!path.submit(made, std::as_bytes(std::span(kept.payload)))) {
    payloads.park(made.index, kept.payload);
  }
  return made;
}

void dispatch_rig::settle() {
  while (path.turn(now)) {
  }
}

void dispatch_rig::finish(std::size_t stream) {
  device.finish(stream);
  settle();
}

void dispatch_rig::expire() {
  while (request* const due = book.due(now)) {
    path.end(*due, wire::status::expired, "too late");
  }
}

void dispatch_rig::drop_lent() {
  for (const recorded_replies::lent_output& each : replied.lent) {
    EXPECT_EQ(std::memcmp(each.at, each.bytes.data(), each.bytes.size()), 0) << "a lent output was written over";
    ring::drop(*each.from);
  }
  replied.lent.clear();
}

recorded_reply dispatch_rig::reply(std::uint64_t id, const std::string& from) {
  const std::vector<recorded_reply>& all = replied.all[{from, id}];
  EXPECT_EQ(all.size(), 1U) << "replies to " << from << "'s request " << id;
  return all.size() == 1 ? all.front() : recorded_reply{};
}

std::size_t dispatch_rig::replies(std::uint64_t id, const std::string& from) {
  return replied.all[{from, id}].size();
}

std::string dispatch_rig::payload(std::uint64_t id, const std::string& from) const {
  return sent_.at({from, id}).payload;
}

std::uint64_t dispatch_rig::closed(close_reason why, std::uint32_t pipeline) {
  return book.of_pipeline(pipeline).closed[static_cast<std::size_t>(why)];
}

void dispatch_rig::check() {
  EXPECT_TRUE(counters.requests.balanced());
  EXPECT_EQ(counters.requests.accepted, replied.count + counters.requests.in_flight);
  outcome_account total;
  for (const pipeline_account& each : book.by_pipeline()) {
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

void dispatch_rig::end_in_peace() {
  replied.lend = false;
  for (int round = 0; round < 1000 && (counters.requests.in_flight + payloads.size() > 0 || !path.idle()); ++round) {
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
  EXPECT_TRUE(path.idle());
  EXPECT_EQ(streams.in_flight(), 0U);
  EXPECT_EQ(book.next_deadline(), never);
  for (const auto& [name, id] : replied.order) {
    const client_record& each = client(name);
    EXPECT_EQ(each.requests + each.bytes + each.references, 0U) << name;
    EXPECT_EQ(each.abandoned_requests + each.abandoned_bytes, 0U) << name;
  }
}

}  // namespace penstock::testing
