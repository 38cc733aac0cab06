#pragma once

#include "daemon/request/ledger.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/timeline/recorder.hpp"

namespace penstock {

/// Brings terminal replies to the ledger. Of a batch, those of one client come one behind the other. In a session they
/// keep its order: a result that is there before those of its session before it is held, with its slot, until they are.
/// Errors go out when they happen. Thread: the shard.
class result_order {
 public:
  result_order(ledger& book, recorder& timeline) noexcept : book_(book), timeline_(timeline) {}

  /// The slot's batch is done. Its requests may be answered already; nobody else refers to them after this.
  void finished(slot& from);
  /// Ends a request that is neither queued nor answered before its result.
  void end(request& early, wire::status code, const wire::error_body& why);

 private:
  void finish(request& done, slot& from);
  void settle(request& done, slot& from);
  void let_follow(session_record* session);

  ledger& book_;
  recorder& timeline_;
};

}  // namespace penstock
