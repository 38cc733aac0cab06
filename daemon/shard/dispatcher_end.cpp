// What the dispatcher does when the device refuses a batch, and how it ends: by a drain, at once, or because the device
// is lost.
#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/request/session_table.hpp"
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

// The device has the slot's memory and the operations' arguments until it is done with what it took of the batch, so
// that the batch completes like any other. Its requests need not wait for that.
void dispatcher::fence(slot& refused, launch_fault why) {
  fail(refused, why);
  while (!lost_by(why)) {
    const fault again = streams_.fence(refused);
    if (!again) {
      return;
    }
    why.what = again;
  }
}

bool dispatcher::lost_by(const launch_fault& why) {
  refused_at_[refusals_++ % refusals_of_a_loss] = now_;
  const bool too_many =
      refusals_ >= refusals_of_a_loss && now_ - refused_at_[refusals_ % refusals_of_a_loss] < refusals_count_for;
  if (!lost_ && (too_many || streams_.health())) {
    lost_ = device_loss{.error = why.what.name, .stage = why.stage};
  }
  return lost_.has_value();
}

void dispatcher::fail(slot& refused, const launch_fault& why) {
  batch& work = refused.work;
  work.refused = why.what;
  if (streams_.health()) {
    return;  // it is answered with everything else
  }
  ++book_.of_pipeline(work.pipeline->id).refused;
  spdlog::warn("the device refused a batch of pipeline '{}'{}: {}; its requests are answered FAILED, others go on",
               work.pipeline->declaration.name,
               *why.stage != '\0' ? fmt::format(" at stage '{}'", why.stage) : std::string(), why.what.name);
  for (request* const each : work.requests) {
    if (each->step != request_step::answered) {
      order_.end(*each, wire::status::failed,
                 {.reason = "the device refused the batch",
                  .step = "executing",
                  .stage = why.stage,
                  .device_error = why.what.name});
    }
  }
  if (work.pipeline->keeps_state()) {
    for (const request* const each : work.requests) {
      lose_session_behind(*each, why);
    }
  }
}

// Its state is neither before nor behind the request. What comes before it in the session is with the device, or done;
// what comes behind it is not yet there.
void dispatcher::lose_session_behind(const request& refused, const launch_fault& why) {
  session_table::close(*refused.session);
  for (request* next = refused.session->first; next != nullptr;) {
    request& each = *std::exchange(next, next->session_next);
    if (each.sequence > refused.sequence) {
      end(each, wire::status::session_lost,
          fmt::format("the device refused frames of the session before these: {}", why.what.name));
    }
  }
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

void dispatcher::check_device(time_point now, std::chrono::nanoseconds patience) {
  constexpr int whatever_else_is_done = 10;
  if (const fault sick = streams_.health(); sick && !lost_) {
    lost_ = device_loss{.error = sick.name};
  }
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
