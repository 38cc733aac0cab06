#include "daemon/request/ledger.hpp"

#include <algorithm>
#include <cassert>

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

}  // namespace

request& ledger::open(client_record& from, const plan& pipeline, session_record* session,
                      const wire::message_header& header, std::int64_t leading, std::size_t bytes, time_point now) {
  request& made = pool_.claim();
  made.client = &from;
  made.pipeline = &pipeline;
  made.id = header.request_id;
  made.trace_id = header.trace_id;
  made.frames = header.frames;
  made.leading = leading;
  made.bytes = bytes;
  made.received = now;
  made.deadline = deadline_of(header.timeout_ns, now);
  if (made.deadline != never) {
    deadlines_.push(made);
  }
  if (session != nullptr) {
    made.session = session;
    made.sequence = session->frames;
    made.steps_before = session->steps;
    session->frames += made.frames;
    session->steps += leading * made.frames;
    session->last_used = now;
    ++session->references;
    session->append(made);
  }
  ++open_[pipeline.place];
  from.in_flight.insert(made);
  ++from.requests;
  from.bytes += bytes;
  ++from.references;
  count_start(counters_.requests);
  pipeline_account& per_pipeline = by_pipeline_[pipeline.id];
  count_start(per_pipeline.requests);
  per_pipeline.frames += made.frames;
  counters_.payload_bytes_in += bytes;
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
  client.bytes -= ended.bytes;
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
  replies_.error(ended, code, why);
}

void ledger::abandon(request& settled) noexcept {
  settled.abandoned = true;
  ++settled.client->abandoned_requests;
  settled.client->abandoned_bytes += settled.bytes;
}

void ledger::release(request& settled) noexcept {
  assert(settled.step == request_step::answered);
  if (settled.abandoned) {
    --settled.client->abandoned_requests;
    settled.client->abandoned_bytes -= settled.bytes;
  }
  if (settled.session != nullptr) {
    --settled.session->references;
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
