#include "daemon/request/request_tracker.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>

#include "daemon/request/wire_tensor.hpp"
#include "daemon/shm/segment.hpp"

namespace penstock {
namespace {

void count_end(outcome_account& counters, wire::status_kind kind) noexcept {
  --counters.in_flight;
  if (kind == wire::status_kind::ok) {
    ++counters.results;
  } else {
    ++counters.errors[static_cast<std::size_t>(kind)];
  }
}

void count_start(outcome_account& counters) noexcept {
  ++counters.accepted;
  ++counters.in_flight;
}

// A timeout that would overflow the clock counts as none.
time_point deadline_of(std::uint64_t timeout_ns, time_point now) noexcept {
  constexpr std::uint64_t longest = std::uint64_t{1} << 61U;
  return timeout_ns == 0 || timeout_ns > longest
             ? never
             : now + std::chrono::nanoseconds{static_cast<std::int64_t>(timeout_ns)};
}

std::uint32_t saturated(std::uint64_t count) noexcept {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, std::numeric_limits<std::uint32_t>::max()));
}

// More are joined: their counts are then of longer ranges.
constexpr std::size_t most_filled = 64;

// Of an earlier request nobody knows which of its samples are filled, so this is the most that there can be.
void note_filled(request& next, session_record& session) {
  const bool has_filled = next.account && next.account->filled != 0;
  if (session.filled.empty() && !has_filled) {
    return;
  }
  const std::int64_t begin = first_step_of(next);
  std::erase_if(session.filled, [&](const filled_steps& each) { return each.end <= begin; });
  std::uint64_t filled = 0;
  for (const filled_steps& each : session.filled) {
    filled += std::min<std::uint64_t>(each.count, static_cast<std::uint64_t>(each.end - std::max(each.begin, begin)));
    next.withheld_earlier = next.withheld_earlier || each.withheld;
  }
  next.filled_earlier = saturated(filled);
  if (has_filled) {
    if (session.filled.size() == most_filled) {
      filled_steps& oldest = session.filled[1];
      oldest.begin = session.filled[0].begin;
      oldest.count = saturated(std::uint64_t{oldest.count} + session.filled[0].count);
      oldest.withheld = oldest.withheld || session.filled[0].withheld;
      session.filled.erase(session.filled.begin());
    }
    session.filled.push_back({.begin = next.steps_before,
                              .end = next.steps_before + next.pipeline->frame_steps(next.leading) * next.frames,
                              .count = next.account->filled,
                              .withheld = (next.account->flags & wire::sample_flag::withheld) != 0});
  }
}

void join_session(request& next, session_record& session) {
  next.session = &session;
  next.sequence = session.frames;
  next.steps_before = session.steps;
  note_filled(next, session);
  session.frames += next.frames;
  session.steps += next.pipeline->frame_steps(next.leading) * next.frames;
  session.last_used = next.received;
  ++session.references;
  session.append(next);
}

}  // namespace

request& request_tracker::open(client_record& client, const wire::message_header& header, const submission& admitted,
                               time_point now) {
  request& made = pool_.claim();
  made.client = &client;
  made.pipeline = admitted.pipeline;
  made.id = header.request_id;
  made.trace_id = header.trace_id;
  made.account = admitted.account;
  made.numbers = admitted.numbers;
  made.frames = header.frames;
  made.leading = admitted.leading;
  made.bytes = admitted.bytes;
  made.shared = admitted.shared;
  made.payload = admitted.shared.arena != nullptr ? payload_mode::shared : payload_mode::copied;
  made.received = now;
  made.deadline = deadline_of(header.timeout_ns, now);
  if (made.deadline != never) {
    deadlines_.push(made);
  }
  if (made.payload == payload_mode::shared) {
    made.shared.incarnation = client.incarnation;
    made.shared.arena->use();
  }
  if (admitted.session != nullptr) {
    join_session(made, *admitted.session);
  }
  ++open_[admitted.pipeline->place];
  client.in_flight.insert(made);
  client.latest = std::max(client.latest, made.id);
  ++client.requests;
  client.bytes += made.credit_bytes();
  ++client.references;
  count_start(counters_.requests);
  pipeline_account& per_pipeline = by_pipeline_[admitted.pipeline->id];
  count_start(per_pipeline.requests);
  per_pipeline.frames += made.frames;
  counters_.payload_bytes_in += admitted.bytes;
  return made;
}

void request_tracker::close(request& ended, wire::status_kind kind) noexcept {
  assert(ended.step != request_step::answered);
  ended.step = request_step::answered;
  if (ended.deadline != never) {
    deadlines_.remove(ended);
  }
  if (ended.session != nullptr) {
    ended.session->unlink(ended);
  }
  client_record& client = *ended.client;
  client.in_flight.erase(ended);
  --client.requests;
  client.bytes -= ended.credit_bytes();
  count_end(counters_.requests, kind);
  count_end(by_pipeline_[ended.pipeline->id].requests, kind);
}

void request_tracker::settle_result(request& done, slot& slot) {
  close(done, wire::status_kind::ok);
  ++done.client->results;
  replies_.result(done, slot);
}

void request_tracker::settle_error(request& ended, wire::status code, const wire::error_body& why) {
  close(ended, wire::kind_of(code));
  if (ended.payload != payload_mode::shared) {
    replies_.error(ended, code, why);
    return;
  }
  ended.shared.held = true;
  if (ended.shared.incarnation == ended.client->incarnation) {
    ended.client->held.push_back(ended.id);
  }
  wire::error_body holding = why;
  holding.holds = true;
  replies_.error(ended, code, holding);
}

void request_tracker::abandon(request& settled) noexcept {
  settled.abandoned = true;
  ++settled.client->abandoned_requests;
  settled.client->abandoned_bytes += settled.credit_bytes();
}

void request_tracker::release(request& settled) noexcept {
  assert(settled.step == request_step::answered);
  if (settled.abandoned) {
    --settled.client->abandoned_requests;
    settled.client->abandoned_bytes -= settled.credit_bytes();
  }
  if (settled.session != nullptr) {
    --settled.session->references;
  }
  if (settled.payload == payload_mode::shared) {
    // After a GOODBYE the next client over the same connection may use the same request ids.
    if (settled.shared.held && settled.shared.incarnation == settled.client->incarnation) {
      std::erase(settled.client->held, settled.id);
      replies_.released(settled);
    }
    settled.shared.arena->drop();
  }
  --settled.client->references;
  --open_[settled.pipeline->place];
  pool_.release(settled);
}

void request_tracker::add(const plan& later) {
  by_pipeline_.resize(std::max<std::size_t>(by_pipeline_.size(), later.id + 1));
  open_.resize(std::max<std::size_t>(open_.size(), later.place + 1));
}

std::string_view name_of(request_step step) noexcept {
  switch (step) {
    case request_step::queued:
      return "queued";
    case request_step::batched:
      return "batched";
    case request_step::executing:
      return "executing";
    case request_step::held:
      return "held";
    case request_step::answered:
      return "answered";
  }
  return "";
}

}  // namespace penstock
