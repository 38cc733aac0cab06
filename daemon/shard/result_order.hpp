#pragma once

#include "daemon/ingress/payload_store.hpp"
#include "daemon/request/ledger.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/timeline/recorder.hpp"

namespace penstock {

/// Brings terminal replies to the ledger. Of a batch, those of one client come one behind the other. In a session they
/// keep its order: a result that is there before those of its session before it is held, with its slot, until they are.
/// Errors go out when they happen. A payload that stayed in place is let go of when nobody needs it any more, be it as
/// input or as result. Thread: the shard.
class result_order {
 public:
  result_order(ledger& book, recorder& timeline, payload_store& payloads) noexcept
      : book_(book), timeline_(timeline), payloads_(payloads) {}

  /// The slot's batch is done. Its requests may be answered already; nobody else refers to them after this.
  void finished(slot& from);
  /// Ends a request that is neither queued nor answered before its result.
  void end(request& early, wire::status code, const wire::error_body& why);

 private:
  void finish(request& done, slot& from);
  void settle(request& done, slot& from);
  void forget_result(const request& of, const slot& from) noexcept;
  void let_follow(session_record* session);

  ledger& book_;
  recorder& timeline_;
  payload_store& payloads_;
};

}  // namespace penstock
