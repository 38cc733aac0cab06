#include "daemon/shard/dispatcher.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace penstock {
namespace {

// By how much longer work of that priority counts as having waited. What has waited longer still comes first, so that
// a lane with endless work never starves another.
std::chrono::nanoseconds head_start(stream_priority priority) noexcept {
  constexpr std::chrono::milliseconds one_level{10};
  return one_level * (static_cast<int>(priority) - static_cast<int>(stream_priority::normal));
}

}  // namespace

dispatcher::dispatcher(std::span<const plan> plans, ring& slots, wheel& streams, completion_queue& completed,
                       ledger& book, payload_store& payloads)
    : ring_(slots), streams_(streams), completed_(completed), book_(book), payloads_(payloads) {
  for (const plan& each : plans) {
    lanes_.push_back({.what = &each,
                      .waiting = {},
                      .open = nullptr,
                      .ahead = head_start(each.declaration.priority),
                      .blocked = false});
  }
  ready_.reserve(slots.size());
  launched_.reserve(slots.size());
}

bool dispatcher::submit(request& accepted, std::span<const std::byte> payload) {
  lane& in = lanes_[accepted.pipeline->id];
  if (in.waiting.empty() && place(in, accepted, payload)) {
    return true;
  }
  in.waiting.push(accepted);
  return false;
}

bool dispatcher::fits(const lane& in, const request& what) const noexcept {
  const batch& work = in.open->work;
  return work.frames + what.frames <= in.what->max_frames && work.leading == what.leading;
}

// Into the pipeline's open slot, opening one where there is none; false when the ring has none to give.
bool dispatcher::place(lane& in, request& what, std::span<const std::byte> payload) {
  if (in.open != nullptr && !fits(in, what)) {
    close(in, in.open->work.leading == what.leading ? close_reason::full : close_reason::extent);
  }
  if (in.open == nullptr) {
    in.open = ring_.claim();
    if (in.open == nullptr) {
      return false;
    }
    ++open_;
    in.open->work.pipeline = in.what;
    in.open->work.leading = what.leading;
    in.open->work.oldest = what.received;
  }
  batch& work = in.open->work;
  const std::size_t frame_bytes = in.what->input().bytes(what.leading);
  std::memcpy(in.open->pinned_input.get() + static_cast<std::size_t>(work.frames) * frame_bytes, payload.data(),
              payload.size());
  what.home = in.open;
  what.first_frame = work.frames;
  what.step = request_step::batched;
  work.frames += what.frames;
  work.requests.push_back(&what);
  return true;
}

bool dispatcher::turn(time_point now) {
  bool progress = streams_.mode() == completion_mode::poll && streams_.poll();
  progress |= complete();
  progress |= ring_.collect();
  if (lost_ || ended_) {
    return progress;
  }
  progress |= feed();
  progress |= close_due(now);
  progress |= launch_ready(now);
  return progress;
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
  streams_.retire(done);
  launched_.erase(std::find(launched_.begin(), launched_.end(), &done));
  if (const fault why = done.completed.status) {
    if (!lost_) {
      lost_ = device_loss{why.name, ""};
    }
    end_batch(done, wire::status::device_failed,
              {.reason = "the device failed", .step = "executing", .stage = "", .device_error = why.name});
  } else {
    for (request* each : done.work.requests) {
      if (each->step != request_step::answered) {
        book_.settle_result(*each, done);
      }
      book_.release(*each);
    }
    done.work.requests.clear();
  }
  ring::drop(done);
}

bool dispatcher::feed() {
  bool progress = false;
  for (lane& each : lanes_) {
    each.blocked = false;
  }
  while (lane* const in = next_to_feed()) {
    request& next = *in->waiting.first();
    if (place(*in, next, payloads_.parked(next.index))) {
      in->waiting.remove(next);
      payloads_.unpark(next.index);
      progress = true;
    } else {
      in->blocked = true;  // the others may still have room in a slot of their own
    }
  }
  return progress;
}

dispatcher::lane* dispatcher::next_to_feed() noexcept {
  lane* found = nullptr;
  time_point earliest = never;
  for (lane& each : lanes_) {
    const request* const first = each.waiting.first();
    if (first != nullptr && !each.blocked && first->received - each.ahead < earliest) {
      earliest = first->received - each.ahead;
      found = &each;
    }
  }
  return found;
}

batch_fill dispatcher::fill_of(const lane& of) const noexcept {
  if (of.open == nullptr) {
    return {};
  }
  const batch& work = of.open->work;
  return {work.frames, of.what->max_frames, work.oldest, of.what->declaration.batch.max_delay};
}

bool dispatcher::close_due(time_point now) {
  bool progress = false;
  close_reason why{};
  while (lane* const in = next_to_close(now, why)) {
    close(*in, why);
    progress |= launch_ready(now);
  }
  for (lane& each : lanes_) {
    if (draining_ && each.open != nullptr) {
      close(each, close_reason::drain);
    }
  }
  return progress;
}

dispatcher::lane* dispatcher::next_to_close(time_point now, close_reason& why) noexcept {
  // Closed batches that still wait for a stream come first: while there are any, there is no room for others.
  const wheel_room room = ready_.empty() ? streams_.room() : wheel_room::none;
  lane* found = nullptr;
  time_point earliest = never;
  for (lane& each : lanes_) {
    const batch_fill fill = fill_of(each);
    const std::optional<close_reason> closes = decide(fill, room, now);
    if (closes && fill.oldest - each.ahead < earliest) {
      earliest = fill.oldest - each.ahead;
      why = *closes;
      found = &each;
    }
  }
  return found;
}

void dispatcher::close(lane& in, close_reason why) {
  slot& closed = *in.open;
  in.open = nullptr;
  --open_;
  closed.work.reason = why;
  pipeline_account& counters = book_.of_pipeline(in.what->id);
  ++counters.closed[static_cast<std::size_t>(why)];
  ++counters.batches;
  counters.batched_frames += static_cast<std::uint64_t>(closed.work.frames);
  ready_.push_back(&closed);
}

bool dispatcher::launch_ready(time_point now) {
  std::size_t taken = 0;
  while (taken < ready_.size() && streams_.room() != wheel_room::none && !lost_) {
    slot& next = *ready_[taken++];
    for (request* each : next.work.requests) {
      if (each->step == request_step::batched) {
        each->step = request_step::executing;
      }
    }
    launched_.push_back(&next);
    if (const launch_fault failed = streams_.launch(next, now); failed.what) {
      lost_ = device_loss{failed.what.name, failed.stage};
    }
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(taken));
  return taken > 0;
}

void dispatcher::end(request& early, wire::status code, const std::string& reason) {
  const bool queued = early.step == request_step::queued;
  if (queued) {
    lanes_[early.pipeline->id].waiting.remove(early);
    payloads_.unpark(early.index);
  }
  book_.settle_error(early, code,
                     {.reason = reason, .step = std::string(name_of(early.step)), .stage = "", .device_error = ""});
  if (queued) {
    book_.release(early);
  }
}

request* dispatcher::oldest_queued(const client_record& of, const plan& pipeline) const noexcept {
  for (request* each = lanes_[pipeline.id].waiting.first(); each != nullptr; each = each->next) {
    if (each->client == &of) {
      return each;
    }
  }
  return nullptr;
}

void dispatcher::drain() {
  draining_ = true;
  for (lane& each : lanes_) {
    while (request* next = each.waiting.first()) {
      end(*next, wire::status::shutdown, "the daemon is stopping");
    }
  }
}

void dispatcher::end_batch(slot& of, wire::status code, const wire::error_body& why) {
  for (request* each : of.work.requests) {
    if (each->step != request_step::answered) {
      book_.settle_error(*each, code, why);
    }
    book_.release(*each);
  }
  of.work.requests.clear();
}

void dispatcher::end_all(wire::status code, const wire::error_body& why) {
  ended_ = true;
  for (lane& each : lanes_) {
    while (request* next = each.waiting.first()) {
      each.waiting.remove(*next);
      payloads_.unpark(next->index);
      book_.settle_error(*next, code, why);
      book_.release(*next);
    }
    if (each.open != nullptr) {
      ready_.push_back(std::exchange(each.open, nullptr));
      --open_;
    }
  }
  // The device has never seen these: their slots come back now, those of the launched ones with their completions.
  for (slot* each : std::exchange(ready_, {})) {
    end_batch(*each, code, why);
    ring::drop(*each);
  }
  for (slot* each : launched_) {
    end_batch(*each, code, why);
  }
}

void dispatcher::check_hung(time_point limit) {
  for (const slot* each : launched_) {
    if (each->work.launched < limit && !lost_) {
      lost_ = device_loss{"a batch hangs", each->work.pipeline->declaration.name};
    }
  }
}

time_point dispatcher::next_decision() const noexcept {
  time_point earliest = never;
  if (streams_.room() == wheel_room::none) {
    return earliest;
  }
  for (const lane& each : lanes_) {
    earliest = std::min(earliest, penstock::next_decision(fill_of(each)));
  }
  return earliest;
}

}  // namespace penstock
