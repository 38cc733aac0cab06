#include "daemon/exec/scheduler.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/request/sessions.hpp"

namespace penstock {

scheduler::scheduler(std::span<const plan> plans, slot_ring& slots, stream_pool& streams, completion_queue& completed,
                     request_tracker& tracker, payload_store& payloads, recorder& recorder)
    : ring_(slots),
      streams_(streams),
      completed_(completed),
      tracker_(tracker),
      payloads_(payloads),
      recorder_(recorder) {
  for (const plan& each : plans) {
    add(each);
  }
  ready_.reserve(slots.size());
  launched_.reserve(slots.size());
}

void scheduler::add(const plan& later) {
  active_.push_back(
      builders_.emplace_back(std::make_unique<batch_builder>(later, streams_.in_place_bytes(later))).get());
  waiting_builders_.reserve(active_.size());
  filling_.reserve(active_.size());
}

bool scheduler::done_with(const plan& pipeline) const noexcept {
  const batch_builder& builder = *builders_[pipeline.place];
  const auto its = [&](const slot* each) { return each->work.pipeline == &pipeline; };
  return builder.filling() == nullptr && builder.waiting.empty() && std::none_of(ready_.begin(), ready_.end(), its) &&
         std::none_of(launched_.begin(), launched_.end(), its);
}

void scheduler::remove(const plan& pipeline) noexcept {
  std::erase(active_, builders_[pipeline.place].get());
  builders_[pipeline.place].reset();
}

submit_outcome scheduler::submit(request& accepted, std::span<const std::byte> payload) {
  batch_builder& builder = *builders_[accepted.pipeline->place];
  accepted.payload = builder.mode_of(accepted, payload);
  if (builder.waiting.empty() && place(builder, accepted, payload)) {
    builder.served(accepted, false, false);
    return stays_in_message(accepted.payload) ? submit_outcome::batched_in_place : submit_outcome::batched;
  }
  builder.waiting.push(accepted);
  return submit_outcome::queued;
}

// Puts the request into the open batch, opening one if there is none; false if it has to wait. A slot is claimed only
// if a stream has room for its batch. Until then the fair queue decides whose requests it will take.
bool scheduler::place(batch_builder& builder, request& next, std::span<const std::byte> payload) {
  if (builder.filling() != nullptr && !builder.fits(next)) {
    close(builder, builder.reason_against(next));
  }
  if (builder.filling() == nullptr) {
    slot* const empty = room_for(builder) != stream_room::none ? ring_.claim() : nullptr;
    if (empty == nullptr) {
      return false;
    }
    recorder_.opened(*empty);
    builder.open(*empty, next);
    filling_.push_back(&builder);
  }
  builder.put(next, payload);
  return true;
}

bool scheduler::turn(time_point now) {
  now_ = now;
  recorder_.turn(now);
  bool progress = poll();
  progress |= complete();
  if (ring_.collect()) {
    recorder_.collected();
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

bool scheduler::poll() {
  if (!streams_.polling()) {
    return false;
  }
  const bool any = streams_.poll();
  if (const fault refused = streams_.take_refusal()) {
    (void)lost_by({refused});
  }
  return any;
}

bool scheduler::complete() {
  completion_node* node = completed_.take();
  const bool any = node != nullptr;
  while (node != nullptr) {
    completion_node* next = node->next;
    finish(*node->owner);
    node = next;
  }
  return any;
}

void scheduler::finish(slot& done) {
  streams_.retire(done, now_);
  last_done_ = now_;
  ++batches_done_;
  launched_.erase(std::find(launched_.begin(), launched_.end(), &done));
  --builder_of(done).launched;
  const fault why = done.completed.status;
  const bool alone = why && done.work.pipeline->blocks && !streams_.health();
  if (alone) {
    fail(done, {why, done.work.pipeline->stages.front().name.c_str()});
  }
  recorder_.completed(done);
  if (why && !alone) {
    std::vector<const slot*> batches(launched_.begin(), launched_.end());
    batches.push_back(&done);
    lose({.error = why.name}, std::move(batches));
    end_batch(done, wire::status::device_failed,
              {.reason = "the device failed", .step = "executing", .stage = "", .device_error = why.name});
  } else {
    order_.finished(done);
  }
  slot_ring::drop(done);
}

bool scheduler::feed() {
  waiting_builders_.clear();
  if (ring_.free() == 0 && filling_.empty()) {
    return false;
  }
  for (batch_builder* const each : active_) {
    if (!each->waiting.empty()) {
      waiting_builders_.push_back({each});
      look(waiting_builders_.back());
    }
  }
  bool progress = false;
  for (waiting_builder* candidate = next_to_feed(); candidate != nullptr; candidate = next_to_feed()) {
    request& next = *candidate->first;
    if (place(*candidate->builder, next, payloads_.bytes(next.index))) {
      candidate->builder->served(next, candidate->builder->waiting.heavy(next), candidate->held);
      candidate->builder->waiting.take(next);
      if (!stays_in_message(next.payload)) {
        payloads_.drop(next.index);
      }
      look(*candidate);
      progress = true;
      continue;
    }
    // No slot for this builder, so none for others on its streams, except those that have an open one.
    const stream_class streams = candidate->builder->streams();
    std::erase_if(waiting_builders_, [&](const waiting_builder& each) {
      return each.builder->streams() == streams && each.builder->filling() == nullptr;
    });
  }
  return progress;
}

void scheduler::look(waiting_builder& candidate) noexcept {
  candidate.held = holds_heavy(*candidate.builder);
  candidate.first = candidate.builder->waiting.first(!candidate.held);
  candidate.turn = candidate.first != nullptr ? candidate.builder->turn_of(candidate.first->received) : never;
}

scheduler::waiting_builder* scheduler::next_to_feed() noexcept {
  waiting_builder* found = nullptr;
  time_point earliest = never;
  for (waiting_builder& each : waiting_builders_) {
    if (each.turn < earliest) {
      earliest = each.turn;
      found = &each;
    }
  }
  return found;
}

// Heavy clients leave half of the device to light ones: a batch that is with the device can't be taken back.
bool scheduler::holds_heavy(const batch_builder& builder) const noexcept {
  return builder.holds_heavy() && streams_.half_taken(builder.streams());
}

// Closed batches that wait for a stream come first. While there are any, there is no room for others.
stream_room scheduler::room_for(const batch_builder& builder) const noexcept {
  const bool waits = std::any_of(ready_.begin(), ready_.end(),
                                 [&](const slot* each) { return each->work.pipeline->streams() == builder.streams(); });
  return waits ? stream_room::none : streams_.room(builder.streams(), builder.launched == 0);
}

bool scheduler::close_due() {
  bool progress = false;
  close_reason why{};
  while (batch_builder* const builder = next_to_close(why)) {
    close(*builder, why);
    progress |= launch_ready();
  }
  while (draining_ && !filling_.empty()) {
    close(*filling_.front(), close_reason::drain);
  }
  return progress;
}

batch_builder* scheduler::next_to_close(close_reason& why) noexcept {
  batch_builder* found = nullptr;
  time_point earliest = never;
  for (batch_builder* const each : filling_) {
    const std::optional<close_reason> closes = each->due(room_for(*each), now_);
    const time_point turn = each->turn_of(each->filling()->work.oldest);
    if (closes && turn < earliest) {
      earliest = turn;
      why = *closes;
      found = each;
    }
  }
  return found;
}

void scheduler::close(batch_builder& builder, close_reason why) {
  slot& closed = builder.close();
  std::erase(filling_, &builder);
  closed.work.reason = why;
  recorder_.closed(closed);
  pipeline_account& counters = tracker_.of_pipeline(builder.pipeline().id);
  ++counters.closed[static_cast<std::size_t>(why)];
  ++counters.batch_sizes[size_class(closed.work.frames)];
  ++counters.batches;
  counters.batched_frames += static_cast<std::uint64_t>(closed.work.frames);
  ready_.push_back(&closed);
}

bool scheduler::launch_ready() {
  bool progress = false;
  while (!lost_) {
    const std::size_t index = next_to_launch();
    if (index == ready_.size()) {
      break;
    }
    slot& next = *ready_[index];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(index));
    launch(next);
    progress = true;
  }
  return progress;
}

// The batch that has waited longest, with its priority's head start, among those that a stream has room for. Batches of
// one pipeline keep their order, because sessions rely on it.
std::size_t scheduler::next_to_launch() const noexcept {
  std::size_t found = ready_.size();
  time_point earliest = never;
  for (std::size_t index = 0; index < ready_.size(); ++index) {
    const slot& each = *ready_[index];
    const bool behind_its_own =
        std::any_of(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(index),
                    [&](const slot* before) { return before->work.pipeline == each.work.pipeline; });
    const batch_builder& builder = builder_of(each);
    const time_point turn = builder.turn_of(each.work.oldest);
    if (!behind_its_own && turn < earliest &&
        streams_.room(builder.streams(), builder.launched == 0) != stream_room::none) {
      earliest = turn;
      found = index;
    }
  }
  return found;
}

void scheduler::launch(slot& next) {
  for (request* each : next.work.requests) {
    if (each->step == request_step::batched) {
      each->step = request_step::executing;
    }
  }
  if (stays_in_message(next.work.payload)) {
    next.work.input = payloads_.bytes(next.work.message).data();
  }
  launched_.push_back(&next);
  ++builder_of(next).launched;
  recorder_.launching(next);
  if (const launch_fault failed = streams_.launch(next, now_); failed.error) {
    fence(next, failed);
  } else if (streams_.inline_time().count() != 0) {
    // It is most likely done: answer it before the next batch is launched.
    now_ += streams_.inline_time();
    recorder_.turn(now_);
    poll();
    complete();
  }
}

void scheduler::end(request& early, wire::status code, const std::string& reason) {
  const wire::error_body why{
      .reason = reason, .step = std::string(name_of(early.step)), .stage = "", .device_error = ""};
  const bool queued = early.step == request_step::queued;
  order_.end(early, code, why);
  if (queued && early.session != nullptr && early.pipeline->keeps_state()) {
    tracker_.abandon(early);
  } else if (queued) {
    builders_[early.pipeline->place]->waiting.remove(early);
    payloads_.drop(early.index);
    tracker_.release(early);
  }
}

request* scheduler::oldest_queued(const client_record& client, const plan& pipeline) const noexcept {
  // A replaced plan of the same number comes first: its requests are older.
  for (const batch_builder* const each : active_) {
    request* const found = each->pipeline().id == pipeline.id ? each->waiting.oldest_of(client) : nullptr;
    if (found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

time_point scheduler::next_decision() const noexcept {
  time_point earliest = never;
  for (const batch_builder* const each : filling_) {
    if (streams_.room(each->streams(), each->launched == 0) != stream_room::none) {
      earliest = std::min(earliest, each->next_decision());
    }
  }
  return earliest;
}

void scheduler::drain() {
  draining_ = true;
  empty_queues(wire::status::shutdown,
               {.reason = "the daemon is stopping", .step = "queued", .stage = "", .device_error = ""});
}

void scheduler::empty_queues(wire::status code, const wire::error_body& why) {
  for (batch_builder* const each : active_) {
    while (request* next = each->waiting.first()) {
      each->waiting.remove(*next);
      payloads_.drop(next->index);
      if (next->step != request_step::answered) {
        order_.end(*next, code, why);
      }
      tracker_.release(*next);
    }
  }
}

// A payload that stays in its message is not freed: nobody knows when a failed device stops writing.
void scheduler::end_batch(slot& slot, wire::status code, const wire::error_body& why) {
  for (request* each : slot.work.requests) {
    if (each->step != request_step::answered) {
      order_.end(*each, code, why);
    }
    tracker_.release(*each);
  }
  slot.work.requests.clear();
}

// The device may go on with the batch until the process ends, so shared memory that it writes to stays in use.
void scheduler::end_launched(slot& slot, wire::status code, const wire::error_body& why) {
  for (request* each : slot.work.requests) {
    if (each->step != request_step::answered) {
      order_.end(*each, code, why);
    }
    if (each->payload != payload_mode::shared) {
      tracker_.release(*each);
    }
  }
  slot.work.requests.clear();
}

// The device may use the slot's memory until everything that it accepted of the batch is done, so the batch completes
// like any other. Its requests are answered at once.
void scheduler::fence(slot& refused, launch_fault why) {
  fail(refused, why);
  while (!lost_by(why)) {
    const fault again = streams_.fence(refused);
    if (!again) {
      return;
    }
    why.error = again;
  }
}

bool scheduler::lost_by(const launch_fault& why) {
  refused_at_[refusals_++ % refusals_of_a_loss] = now_;
  const bool too_many =
      refusals_ >= refusals_of_a_loss && now_ - refused_at_[refusals_ % refusals_of_a_loss] < refusals_count_for;
  if (!lost_ && (too_many || streams_.health())) {
    lose({.error = why.error.name, .stage = why.stage}, {launched_.begin(), launched_.end()});
  }
  return lost_.has_value();
}

// No error of CUDA says which kernel it was: of a fault, each that the device had is suspected.
void scheduler::lose(device_loss loss, std::vector<const slot*> batches) {
  if (lost_) {
    return;
  }
  std::sort(batches.begin(), batches.end(),
            [](const slot* left, const slot* right) { return left->work.launched < right->work.launched; });
  for (const slot* const each : batches) {
    const plan& pipeline = *each->work.pipeline;
    const std::string& name = pipeline.declaration.name;
    if (std::any_of(pipeline.stages.begin(), pipeline.stages.end(), [](const auto& one) { return one.users_code; }) &&
        std::find(loss.suspects.begin(), loss.suspects.end(), name) == loss.suspects.end()) {
      loss.suspects.push_back(name);
    }
  }
  lost_ = std::move(loss);
}

void scheduler::fail(slot& refused, const launch_fault& why) {
  batch& work = refused.work;
  work.refused = why.error;
  if (streams_.health()) {
    return;  // the device is lost; end_all answers it
  }
  ++tracker_.of_pipeline(work.pipeline->id).refused;
  const char* const what = work.pipeline->blocks ? "failed" : "refused";
  spdlog::warn("the device {} a batch of pipeline '{}'{}: {}; its requests are answered FAILED, others go on", what,
               work.pipeline->declaration.name,
               *why.stage != '\0' ? fmt::format(" at stage '{}'", why.stage) : std::string(), text_of(why.error));
  const std::string explanation = explanation_of(why.error);
  const std::string reason =
      fmt::format("the device {} the batch{}{}", what, explanation.empty() ? "" : ": ", explanation);
  for (request* const each : work.requests) {
    if (each->step != request_step::answered) {
      order_.end(*each, wire::status::failed,
                 {.reason = reason, .step = "executing", .stage = why.stage, .device_error = why.error.name});
    }
  }
  if (work.pipeline->keeps_state()) {
    for (const request* const each : work.requests) {
      lose_session_behind(*each, why);
    }
  }
}

// The session's state is undefined now. Its earlier requests are with the device or done; the later ones are not.
void scheduler::lose_session_behind(const request& refused, const launch_fault& why) {
  session_table::close(*refused.session);
  for (request* next = refused.session->first; next != nullptr;) {
    request& each = *std::exchange(next, next->session_next);
    if (each.sequence > refused.sequence) {
      end(each, wire::status::session_lost,
          fmt::format("the device refused frames of the session before these: {}", text_of(why.error)));
    }
  }
}

void scheduler::end_all(wire::status code, const wire::error_body& why) {
  ended_ = true;
  for (batch_builder* const each : std::exchange(filling_, {})) {
    ready_.push_back(&each->close());
  }
  for (slot* each : launched_) {
    end_launched(*each, code, why);
  }
  for (slot* each : std::exchange(ready_, {})) {
    if (stays_in_message(each->work.payload)) {
      payloads_.drop(each->work.message);
    }
    end_batch(*each, code, why);
    slot_ring::drop(*each);
  }
  empty_queues(code, why);
}

void scheduler::check_device(time_point now, std::chrono::nanoseconds patience) {
  constexpr int times_while_others_finish = 10;
  if (const fault sick = streams_.health()) {
    lose({.error = sick.name}, {launched_.begin(), launched_.end()});
  }
  const auto oldest = std::min_element(launched_.begin(), launched_.end(), [](const slot* left, const slot* right) {
    return left->work.launched < right->work.launched;
  });
  if (oldest == launched_.end()) {
    return;
  }
  const batch& work = (*oldest)->work;
  const bool stands_still = std::max(work.launched, last_done_) < now - patience;
  if (stands_still || work.launched < now - times_while_others_finish * patience) {
    // Others may wait behind the one that hangs.
    std::vector<const slot*> overdue;
    std::copy_if(launched_.begin(), launched_.end(), std::back_inserter(overdue),
                 [&](const slot* each) { return each->work.launched < now - patience; });
    lose({.error = "a batch hangs", .pipeline = work.pipeline->declaration.name}, std::move(overdue));
  }
}

std::chrono::nanoseconds scheduler::standing_still(time_point now) const noexcept {
  const auto oldest = std::min_element(launched_.begin(), launched_.end(), [](const slot* left, const slot* right) {
    return left->work.launched < right->work.launched;
  });
  return oldest == launched_.end() ? std::chrono::nanoseconds{} : now - std::max((*oldest)->work.launched, last_done_);
}

}  // namespace penstock
