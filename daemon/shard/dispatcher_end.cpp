// How the dispatcher ends: by a drain, at once, or because the device is lost.
#include <algorithm>
#include <utility>

#include "daemon/shard/dispatcher.hpp"

namespace penstock {

void dispatcher::drain() {
  draining_ = true;
  empty_queues(wire::status::shutdown,
               {.reason = "the daemon is stopping", .step = "queued", .stage = "", .device_error = ""});
}

void dispatcher::empty_queues(wire::status code, const wire::error_body& why) {
  for (intake* const each : active_) {
    while (request* next = each->waiting.first()) {
      each->waiting.remove(*next);
      payloads_.unpark(next->index);
      if (next->step != request_step::answered) {
        order_.end(*next, code, why);
      }
      book_.release(*next);
    }
  }
}

// A payload that stayed in place is not let go of: of a device that has failed nobody knows when it stops writing.
void dispatcher::end_batch(slot& of, wire::status code, const wire::error_body& why) {
  for (request* each : of.work.requests) {
    if (each->step != request_step::answered) {
      order_.end(*each, code, why);
    }
    book_.release(*each);
  }
  of.work.requests.clear();
}

// The device may go on with it for as long as the process lives: shared memory that it writes to stays in use.
void dispatcher::end_launched(slot& of, wire::status code, const wire::error_body& why) {
  for (request* each : of.work.requests) {
    if (each->step != request_step::answered) {
      order_.end(*each, code, why);
    }
    if (each->shared.arena == nullptr) {
      book_.release(*each);
    }
  }
  of.work.requests.clear();
}

void dispatcher::end_all(wire::status code, const wire::error_body& why) {
  ended_ = true;
  for (intake* const each : std::exchange(filling_, {})) {
    ready_.push_back(&each->close());
  }
  for (slot* each : launched_) {
    end_launched(*each, code, why);
  }
  for (slot* each : std::exchange(ready_, {})) {
    if (each->work.in_place.has_value()) {
      payloads_.unpark(*each->work.in_place);
    }
    end_batch(*each, code, why);
    ring::drop(*each);
  }
  empty_queues(code, why);
}

void dispatcher::check_hung(time_point now, std::chrono::nanoseconds patience) {
  constexpr int whatever_else_is_done = 10;
  for (const slot* each : launched_) {
    const batch& work = each->work;
    const bool stands_still = std::max(work.launched, last_done_) < now - patience;
    if (!lost_ && (stands_still || work.launched < now - whatever_else_is_done * patience)) {
      lost_ = device_loss{.error = "a batch hangs", .pipeline = work.pipeline->declaration.name};
    }
  }
}

std::chrono::nanoseconds dispatcher::standing_still(time_point now) const noexcept {
  const auto oldest = std::min_element(launched_.begin(), launched_.end(), [](const slot* left, const slot* right) {
    return left->work.launched < right->work.launched;
  });
  return oldest == launched_.end() ? std::chrono::nanoseconds{} : now - std::max((*oldest)->work.launched, last_done_);
}

}  // namespace penstock
