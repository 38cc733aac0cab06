#include "daemon/request/ledger.hpp"

#include <algorithm>
#include <cassert>

#include "daemon/shared_memory/client_arena.hpp"

namespace penstock {
namespace {

void count_end(outcome_account& in, wire::status_kind how) noexcept {
  --in.in_flight;
  if (how == wire::status_kind::ok) {
    ++in.results;
  } else {
    ++in.errors[static_cast<std::size_t>(how)];
  }
}

void count_start(outcome_account& in) noexcept {
  ++in.accepted;
  ++in.in_flight;
}

// A timeout so long that the clock would overflow is no timeout.
time_point deadline_of(std::uint64_t timeout_ns, time_point now) noexcept {
  constexpr std::uint64_t longest = std::uint64_t{1} << 61U;
  return timeout_ns == 0 || timeout_ns > longest
             ? never
             : now + std::chrono::nanoseconds{static_cast<std::int64_t>(timeout_ns)};
}

void join_session(request& next, session_record& session) {
  next.session = &session;
  next.sequence = session.frames;
  next.steps_before = session.steps;
  session.frames += next.frames;
  session.steps += next.leading * next.frames;
  session.last_used = next.received;
  ++session.references;
  session.append(next);
}

}  // namespace

request& ledger::open(client_record& from, const wire::message_header& header, const admitted& what, time_point now) {
  request& made = pool_.claim();
  made.client = &from;
  made.pipeline = what.pipeline;
  made.id = header.request_id;
  made.trace_id = header.trace_id;
  made.frames = header.frames;
  made.leading = what.leading;
  made.bytes = what.bytes;
  made.shared = what.shared;
  made.received = now;
  made.deadline = deadline_of(header.timeout_ns, now);
  if (made.deadline != never) {
    deadlines_.push(made);
  }
  if (made.shared.arena != nullptr) {
    made.shared.incarnation = from.incarnation;
    made.shared.arena->use();
  }
  if (what.session != nullptr) {
    join_session(made, *what.session);
  }
  ++open_[what.pipeline->place];
  from.in_flight.insert(made);
  from.latest = std::max(from.latest, made.id);
  ++from.requests;
  from.bytes += made.credit_bytes();
  ++from.references;
  count_start(counters_.requests);
  pipeline_account& per_pipeline = by_pipeline_[what.pipeline->id];
  count_start(per_pipeline.requests);
  per_pipeline.frames += made.frames;
  counters_.payload_bytes_in += what.bytes;
  return made;
}

void ledger::close(request& ended, wire::status_kind how) noexcept {
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
  count_end(counters_.requests, how);
  count_end(by_pipeline_[ended.pipeline->id].requests, how);
}

void ledger::settle_result(request& done, slot& from) {
  close(done, wire::status_kind::ok);
  ++done.client->results;
  replies_.result(done, from);
}

void ledger::settle_error(request& ended, wire::status code, const wire::error_body& why) {
  close(ended, wire::kind_of(code));
  if (ended.shared.arena == nullptr) {
    replies_.error(ended, code, why);
    return;
  }
  ended.shared.held = true;
  if (ended.shared.incarnation == ended.client->incarnation) {
    ended.client->held.push_back(ended.id);
  }
  wire::error_body with_hold = why;
  with_hold.holds = true;
  replies_.error(ended, code, with_hold);
}

void ledger::abandon(request& settled) noexcept {
  settled.abandoned = true;
  ++settled.client->abandoned_requests;
  settled.client->abandoned_bytes += settled.credit_bytes();
}

void ledger::release(request& settled) noexcept {
  assert(settled.step == request_step::answered);
  if (settled.abandoned) {
    --settled.client->abandoned_requests;
    settled.client->abandoned_bytes -= settled.credit_bytes();
  }
  if (settled.session != nullptr) {
    --settled.session->references;
  }
  if (settled.shared.arena != nullptr) {
    // Who has come again over the same connection has requests of its own, perhaps of the same number.
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

void ledger::add(const plan& later) {
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
