#include "daemon/shard/result_order.hpp"

#include <utility>
#include <vector>

namespace penstock {
namespace {

// Brings a batch's requests into the order of their replies, by `request::next`, and returns the first: client by
// client, in the order in which their first requests came, so that none is always the last. ZeroMQ's thread then takes
// several replies to a connection at once, instead of being woken for each.
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

void result_order::finished(slot& from) {
  std::vector<request*>& all = from.work.requests;
  const bool is_result = from.work.rewrites && !all.empty() && all.front()->step != request_step::answered;
  if (from.work.in_place.has_value() && !is_result) {
    payloads_.unpark(*from.work.in_place);
  }
  if (all.empty()) {
    return;  // answered when the daemon ended
  }
  for (request* next = chained(all); next != nullptr;) {
    request& each = *std::exchange(next, next->next);
    each.client->last_of_batch = nullptr;
    finish(each, from);
  }
  all.clear();
}

void result_order::finish(request& done, slot& from) {
  if (done.step == request_step::answered) {
    book_.release(done);
    return;
  }
  session_record* const session = done.session;
  if (session != nullptr && session->first != &done && done.pipeline->declaration.ordered) {
    done.step = request_step::held;
    from.references.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  settle(done, from);
  book_.release(done);
  let_follow(session);
}

void result_order::end(request& early, wire::status code, const wire::error_body& why) {
  const bool held = early.step == request_step::held;
  session_record* const session = early.session;
  book_.settle_error(early, code, why);
  if (held) {
    forget_result(early, *early.home);
    ring::drop(*early.home);
    book_.release(early);
  }
  let_follow(session);
}

void result_order::settle(request& done, slot& from) {
  timeline_.replied(done);
  book_.settle_result(done, from);
  forget_result(done, from);
}

// Of a result over its payload, what its reply has left of it.
void result_order::forget_result(const request& of, const slot& from) noexcept {
  if (from.work.rewrites) {
    payloads_.unpark(of.index);
  }
}

void result_order::let_follow(session_record* session) {
  while (session != nullptr && session->first != nullptr && session->first->step == request_step::held) {
    request& next = *session->first;
    settle(next, *next.home);
    ring::drop(*next.home);
    book_.release(next);
  }
}

}  // namespace penstock
