#include "daemon/exec/result_order.hpp"

#include <utility>
#include <vector>

namespace penstock {
namespace {

// Links a batch's requests in reply order by `request::next` and returns the first: client by client, in the order of
// their first requests, so that no client is always last. ZeroMQ's thread then takes several replies to a connection at
// once instead of being woken for each.
request* chained(const std::vector<request*>& batch) noexcept {
  request* first = nullptr;
  request* last = nullptr;
  for (request* const each : batch) {
    request* const before = each->client->last_of_batch != nullptr ? each->client->last_of_batch : last;
    each->next = std::exchange(before != nullptr ? before->next : first, each);
    last = before == last ? each : last;
    each->client->last_of_batch = each;
  }
  return first;
}

}  // namespace

void result_order::finished(slot& slot) {
  std::vector<request*>& all = slot.work.requests;
  const bool is_result =
      slot.work.payload == payload_mode::rewritten && !all.empty() && all.front()->step != request_step::answered;
  if (stays_in_message(slot.work.payload) && !is_result) {
    payloads_.drop(slot.work.message);
  }
  if (all.empty()) {
    return;  // answered when the daemon ended
  }
  for (request* next = chained(all); next != nullptr;) {
    request& each = *std::exchange(next, next->next);
    each.client->last_of_batch = nullptr;
    finish(each, slot);
  }
  all.clear();
}

void result_order::finish(request& done, slot& slot) {
  if (done.step == request_step::answered) {
    tracker_.release(done);
    return;
  }
  session_record* const session = done.session;
  if (session != nullptr && session->first != &done && done.pipeline->declaration.ordered) {
    done.step = request_step::held;
    slot.references.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  settle(done, slot);
  tracker_.release(done);
  let_follow(session);
}

void result_order::end(request& early, wire::status code, const wire::error_body& why) {
  const bool held = early.step == request_step::held;
  session_record* const session = early.session;
  tracker_.settle_error(early, code, why);
  if (held) {
    forget_result(early, *early.home);
    slot_ring::drop(*early.home);
    tracker_.release(early);
  }
  let_follow(session);
}

void result_order::settle(request& done, slot& slot) {
  recorder_.replied(done);
  tracker_.settle_result(done, slot);
  forget_result(done, slot);
}

// Frees the message of a result that was written over its payload, if the reply did not take it.
void result_order::forget_result(const request& request, const slot& slot) noexcept {
  if (slot.work.payload == payload_mode::rewritten) {
    payloads_.drop(request.index);
  }
}

void result_order::let_follow(session_record* session) {
  while (session != nullptr && session->first != nullptr && session->first->step == request_step::held) {
    request& next = *session->first;
    settle(next, *next.home);
    slot_ring::drop(*next.home);
    tracker_.release(next);
  }
}

}  // namespace penstock
