#include "tests/support/dispatch_rig.hpp"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

namespace penstock::testing {
void recorded_replies::result(const request& of, slot& from) {
  ++count;
  recorded_reply made;
  const auto first = static_cast<std::size_t>(of.first_frame);
  const std::size_t frame = of.pipeline->output_spec(0).bytes(of.leading);
  const std::byte* const next = from.pinned_output.get() + of.pipeline->outputs[0].pinned_offset + first * frame;
  made.next.assign(reinterpret_cast<const char*>(next), frame * of.frames);
  made.sums.resize(of.frames);
  std::memcpy(made.sums.data(),
              from.pinned_output.get() + of.pipeline->outputs[1].pinned_offset + first * sizeof(std::int32_t),
              of.frames * sizeof(std::int32_t));
  if (lend) {
    from.references.fetch_add(1);
    lent.push_back({&from, next, made.next});
  }
  all[{of.client->identity, of.id}].push_back(std::move(made));
}

void recorded_replies::error(const request& of, wire::status code, const wire::error_body& why) {
  ++count;
  all[{of.client->identity, of.id}].push_back({code, why, {}, {}});
}

dispatch_rig::dispatch_rig(const rig_shape& shape, const std::vector<plan_wish>& wishes)
    : plans(hand_made_plans(wishes)),
      slots(device, shape.slots, size_for(plans), shape.mode == completion_mode::poll, completed, signal),
      streams(device, shape.streams, shape.mode),
      clients(64, shape.credits),
      book(plans.size(), replied, counters),
      path(plans, slots, streams, completed, book, payloads) {}

dispatch_rig::~dispatch_rig() {
  drop_lent();
}

client_record& dispatch_rig::client(const std::string& name) {
  return *clients.admit(name, now);
}

request& dispatch_rig::submit(std::uint64_t id, const rig_request& asked, const std::string& from) {
  const plan& pipeline = plans.at(asked.pipeline);
  const std::int64_t leading = asked.leading > 0 ? asked.leading : pipeline.input().shape.front();
  const std::size_t bytes = asked.frames * pipeline.input().bytes(leading);
  sent& kept = sent_[{from, id}];
  kept = {payload_of(bytes, id * 977 + asked.frames), asked.frames, false};
  wire::message_header header;
  header.request_id = id;
  header.frames = asked.frames;
  header.timeout_ns = static_cast<std::uint64_t>(asked.timeout.count());
  request& made = book.open(client(from), pipeline, header, leading, bytes, now);
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
  for (auto& [key, request] : sent_) {
    const std::vector<recorded_reply>& replies = replied.all[key];
    EXPECT_LE(replies.size(), 1U) << "replies to " << key.first << "'s request " << key.second;
    if (!request.checked && !replies.empty() && replies.front().code == wire::status::ok) {
      request.checked = true;
      EXPECT_EQ(replies.front().next, next_of(request.payload)) << key.first << "'s request " << key.second;
      EXPECT_EQ(replies.front().sums, sums_of(request.payload, request.frames));
    }
  }
}

}  // namespace penstock::testing
