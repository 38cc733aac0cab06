#pragma once

#include "daemon/batch/slot_ring.hpp"
#include "daemon/request/payload_store.hpp"
#include "daemon/request/request_tracker.hpp"
#include "daemon/telemetry/recorder.hpp"

namespace penstock {

/// Decides in which order terminal replies go out, and passes them to the request tracker.
///
/// Replies of one batch to one client follow each other. In a session of an ordered pipeline, a result that is ready
/// early is held, with its slot, until the earlier results are sent. Errors go out at once. A payload in its message is
/// freed here, when neither the device nor the reply needs it. Thread: the shard.
class result_order {
 public:
  result_order(request_tracker& tracker, recorder& recorder, payload_store& payloads) noexcept
      : tracker_(tracker), recorder_(recorder), payloads_(payloads) {}

  /// Call it when the slot's batch is done. Some or all requests may be answered already. Releases those that are.
  void finished(slot& slot);
  /// Answers a request with an error before its result. It must not be answered yet; if it is queued, the caller
  /// removes it from its queue.
  void end(request& early, wire::status code, const wire::error_body& why);

 private:
  void finish(request& done, slot& slot);
  void settle(request& done, slot& slot);
  void forget_result(const request& request, const slot& slot) noexcept;
  void let_follow(session_record* session);

  request_tracker& tracker_;
  recorder& recorder_;
  payload_store& payloads_;
};

}  // namespace penstock
