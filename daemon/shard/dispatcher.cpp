#include "daemon/shard/dispatcher.hpp"

#include <algorithm>

namespace penstock {

dispatcher::dispatcher(std::span<const plan> plans, ring& slots, wheel& streams, completion_queue& completed,
                       ledger& book, payload_store& payloads, recorder& timeline)
    : ring_(slots), streams_(streams), completed_(completed), book_(book), payloads_(payloads), timeline_(timeline) {
  for (const plan& each : plans) {
    add(each);
  }
  ready_.reserve(slots.size());
  launched_.reserve(slots.size());
}

void dispatcher::add(const plan& later) {
  active_.push_back(intakes_.emplace_back(std::make_unique<intake>(later, streams_.in_place_bytes(later))).get());
  hungry_.reserve(active_.size());
  filling_.reserve(active_.size());
}

bool dispatcher::done_with(const plan& which) const noexcept {
  const intake& of = *intakes_[which.place];
  const auto its = [&](const slot* each) { return each->work.pipeline == &which; };
  return of.filling() == nullptr && of.waiting.empty() && std::none_of(ready_.begin(), ready_.end(), its) &&
         std::none_of(launched_.begin(), launched_.end(), its);
}

void dispatcher::remove(const plan& which) noexcept {
  std::erase(active_, intakes_[which.place].get());
  intakes_[which.place].reset();
}

bool dispatcher::submit(request& accepted, std::span<const std::byte> payload) {
  intake& in = *intakes_[accepted.pipeline->place];
  if (in.waiting.empty() && place(in, accepted, payload)) {
    in.served(accepted, false, false);
    return !accepted.home->work.in_place.has_value();
  }
  in.waiting.push(accepted);
  return false;
}

// Into the pipeline's open slot, opening one where there is none; false when it has to wait. A slot is opened only when
// a stream has room for its batch: until then the turns of the queue decide who comes into it.
bool dispatcher::place(intake& in, request& what, std::span<const std::byte> payload) {
  if (in.filling() != nullptr && !in.fits(what, payload)) {
    close(in, in.reason_against(what));
  }
  if (in.filling() == nullptr) {
    slot* const empty = room_for(in) != wheel_room::none ? ring_.claim() : nullptr;
    if (empty == nullptr) {
      return false;
    }
    timeline_.opened(*empty);
    in.open(*empty, what);
    filling_.push_back(&in);
  }
  in.put(what, payload);
  return true;
}

bool dispatcher::turn(time_point now) {
  now_ = now;
  timeline_.turn(now);
  bool progress = poll();
  progress |= complete();
  if (ring_.collect()) {
    timeline_.collected();
    progress = true;
  }
  if (lost_ || ended_) {
    return progress;
  }
  progress |= launch_ready();
  progress |= feed();
  progress |= close_due();
  progress |= launch_ready();
  return progress;
}

bool dispatcher::poll() {
  if (!streams_.polling()) {
    return false;
  }
  const bool any = streams_.poll();
  if (const fault refused = streams_.take_refusal()) {
    (void)lost_by({refused});
  }
  return any;
}

bool dispatcher::complete() {
  completion_node* node = completed_.take();
  const bool any = node != nullptr;
  while (node != nullptr) {
    completion_node* next = node->next;
    finish(*node->owner);
    node = next;
  }
  return any;
}

void dispatcher::finish(slot& done) {
  streams_.retire(done, now_);
  last_done_ = now_;
  ++batches_done_;
  launched_.erase(std::find(launched_.begin(), launched_.end(), &done));
  --intake_of(done).launched;
  timeline_.completed(done);
  if (const fault why = done.completed.status) {
    if (!lost_) {
      lost_ = device_loss{.error = why.name};
    }
    end_batch(done, wire::status::device_failed,
              {.reason = "the device failed", .step = "executing", .stage = "", .device_error = why.name});
  } else {
    order_.finished(done);
  }
  ring::drop(done);
}

bool dispatcher::feed() {
  hungry_.clear();
  if (ring_.free() == 0 && filling_.empty()) {
    return false;
  }
  for (intake* const each : active_) {
    if (!each->waiting.empty()) {
      hungry_.push_back({each});
      look(hungry_.back());
    }
  }
  bool progress = false;
  for (hungry_intake* in = next_to_feed(); in != nullptr; in = next_to_feed()) {
    request& next = *in->first;
    if (place(*in->which, next, payloads_.parked(next.index))) {
      in->which->served(next, in->which->waiting.heavy(next), in->held);
      in->which->waiting.take(next);
      if (!next.home->work.in_place.has_value()) {
        payloads_.unpark(next.index);
      }
      look(*in);
      progress = true;
      continue;
    }
    // There is no slot for it, so there is none for its like. The others still have room in a slot of their own.
    const stream_priority priority = in->which->priority();
    std::erase_if(hungry_, [&](const hungry_intake& each) {
      return each.which->priority() == priority && each.which->filling() == nullptr;
    });
  }
  return progress;
}

void dispatcher::look(hungry_intake& at) noexcept {
  at.held = holds_heavy(*at.which);
  at.first = at.which->waiting.first(!at.held);
  at.turn = at.first != nullptr ? at.which->turn_of(at.first->received) : never;
}

dispatcher::hungry_intake* dispatcher::next_to_feed() noexcept {
  hungry_intake* found = nullptr;
  time_point earliest = never;
  for (hungry_intake& each : hungry_) {
    if (each.turn < earliest) {
      earliest = each.turn;
      found = &each;
    }
  }
  return found;
}

// Whoever has much waiting leaves half of the device to those that have not: what is on it can't be taken back.
bool dispatcher::holds_heavy(const intake& of) const noexcept {
  return of.holds_heavy() && streams_.half_taken(of.priority());
}

// Closed batches that still wait for a stream come first: while there are any, there is no room for others.
wheel_room dispatcher::room_for(const intake& of) const noexcept {
  const bool waits = std::any_of(ready_.begin(), ready_.end(), [&](const slot* each) {
    return each->work.pipeline->declaration.priority == of.priority();
  });
  return waits ? wheel_room::none : streams_.room(of.priority(), of.launched == 0);
}

bool dispatcher::close_due() {
  bool progress = false;
  close_reason why{};
  while (intake* const in = next_to_close(why)) {
    close(*in, why);
    progress |= launch_ready();
  }
  while (draining_ && !filling_.empty()) {
    close(*filling_.front(), close_reason::drain);
  }
  return progress;
}

intake* dispatcher::next_to_close(close_reason& why) noexcept {
  intake* found = nullptr;
  time_point earliest = never;
  for (intake* const each : filling_) {
    const batch_fill fill = each->fill();
    const std::optional<close_reason> closes = decide(fill, room_for(*each), now_);
    if (closes && each->turn_of(fill.oldest) < earliest) {
      earliest = each->turn_of(fill.oldest);
      why = *closes;
      found = each;
    }
  }
  return found;
}

void dispatcher::close(intake& in, close_reason why) {
  slot& closed = in.close();
  std::erase(filling_, &in);
  closed.work.reason = why;
  timeline_.closed(closed);
  pipeline_account& counters = book_.of_pipeline(in.pipeline().id);
  ++counters.closed[static_cast<std::size_t>(why)];
  ++counters.batch_sizes[size_class(closed.work.frames)];
  ++counters.batches;
  counters.batched_frames += static_cast<std::uint64_t>(closed.work.frames);
  ready_.push_back(&closed);
}

bool dispatcher::launch_ready() {
  bool progress = false;
  while (!lost_) {
    const std::size_t at = next_to_launch();
    if (at == ready_.size()) {
      break;
    }
    slot& next = *ready_[at];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
    launch(next);
    progress = true;
  }
  return progress;
}

// The batch that has waited longest, with its priority's head start, of those that a stream has room for. The batches
// of one pipeline keep their order: sessions rely on it.
std::size_t dispatcher::next_to_launch() noexcept {
  std::size_t found = ready_.size();
  time_point earliest = never;
  for (std::size_t at = 0; at < ready_.size(); ++at) {
    const slot& each = *ready_[at];
    const bool behind_its_own =
        std::any_of(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(at),
                    [&](const slot* before) { return before->work.pipeline == each.work.pipeline; });
    const intake& of = intake_of(each);
    const time_point turn = of.turn_of(each.work.oldest);
    if (!behind_its_own && turn < earliest && streams_.room(of.priority(), of.launched == 0) != wheel_room::none) {
      earliest = turn;
      found = at;
    }
  }
  return found;
}

void dispatcher::launch(slot& next) {
  for (request* each : next.work.requests) {
    if (each->step == request_step::batched) {
      each->step = request_step::executing;
    }
  }
  if (next.work.in_place.has_value()) {
    next.work.input = payloads_.parked(*next.work.in_place).data();
    next.work.rewrites = next.work.pipeline->rewrites_input;
  }
  launched_.push_back(&next);
  ++intake_of(next).launched;
  timeline_.launching(next);
  if (const launch_fault failed = streams_.launch(next, now_); failed.what) {
    fence(next, failed);
  } else if (streams_.inline_time().count() != 0) {
    // It is done, most likely, and nobody's result waits for the next batch.
    now_ += streams_.inline_time();
    timeline_.turn(now_);
    poll();
    complete();
  }
}

void dispatcher::end(request& early, wire::status code, const std::string& reason) {
  const wire::error_body why{
      .reason = reason, .step = std::string(name_of(early.step)), .stage = "", .device_error = ""};
  const bool queued = early.step == request_step::queued;
  order_.end(early, code, why);
  if (queued && early.session != nullptr && early.pipeline->keeps_state()) {
    book_.abandon(early);
  } else if (queued) {
    intakes_[early.pipeline->place]->waiting.remove(early);
    payloads_.unpark(early.index);
    book_.release(early);
  }
}

request* dispatcher::oldest_queued(const client_record& of, const plan& pipeline) const noexcept {
  // Of a plan that was replaced first: what waits there is older.
  for (const intake* const each : active_) {
    request* const found = each->pipeline().id == pipeline.id ? each->waiting.oldest_of(of) : nullptr;
    if (found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

time_point dispatcher::next_decision() const noexcept {
  time_point earliest = never;
  for (const intake* const each : filling_) {
    if (streams_.room(each->priority(), each->launched == 0) != wheel_room::none) {
      earliest = std::min(earliest, penstock::next_decision(each->fill()));
    }
  }
  return earliest;
}

}  // namespace penstock
