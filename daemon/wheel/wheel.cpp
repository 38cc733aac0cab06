#include "daemon/wheel/wheel.hpp"

#include <algorithm>
#include <cassert>
#include <ctime>
#include <string>
#include <utility>

#include "daemon/wheel/session_frames.hpp"

namespace penstock {
namespace {

// All that runs on the device's thread: store, push, wake, return.
void batch_done(void* context, fault status) noexcept {
  auto& node = *static_cast<completion_node*>(context);
  node.status = status;
  node.queue->push(node);
}

std::chrono::nanoseconds thread_time() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

}  // namespace

wheel::wheel(device& on, int streams, std::span<const stream_priority> priorities, completion_mode mode,
             const state_pool& states)
    : device_(on),
      mode_(mode),
      direct_bytes_(on.facts().direct_bytes),
      single_pass_bytes_(on.facts().single_pass_bytes),
      in_place_bytes_(on.facts().in_place_bytes),
      single_pass_in_place_bytes_(on.facts().single_pass_in_place_bytes),
      events_come_first_(on.facts().events_come_first),
      inline_limit_(on.facts().inline_limit),
      at_once_(on.facts().at_once != 0 ? on.facts().at_once : static_cast<std::size_t>(streams)),
      states_(states) {
  for (const stream_priority each : priorities) {
    groups_.push_back(
        {each, static_cast<std::uint32_t>(spokes_.size()), static_cast<std::uint32_t>(streams), 0, 0, {}});
    for (int stream = 0; stream < streams; ++stream) {
      spokes_.emplace_back().queue = on.open_stream(each);
    }
  }
  lanes_.reserve(spokes_.size());
}

void wheel::add(stream_priority priority, std::vector<std::unique_ptr<stream>> streams) {
  groups_.push_back(
      {priority, static_cast<std::uint32_t>(spokes_.size()), static_cast<std::uint32_t>(streams.size()), 0, 0, {}});
  for (std::unique_ptr<stream>& each : streams) {
    spokes_.emplace_back().queue = std::move(each);
  }
  lanes_.reserve(spokes_.size());
}

std::size_t wheel::group_of(stream_priority priority) const noexcept {
  const auto found =
      std::find_if(groups_.begin(), groups_.end(), [&](const group& each) { return each.priority == priority; });
  assert(found != groups_.end());
  return static_cast<std::size_t>(found - groups_.begin());
}

wheel_room wheel::room(stream_priority priority, bool alone) const noexcept {
  const group& of = groups_[group_of(priority)];
  if (of.batches >= of.depth() * at_once_) {
    return wheel_room::none;
  }
  const wheel_room behind_another = alone && of.span <= short_batch ? wheel_room::idle : wheel_room::some;
  wheel_room found = wheel_room::none;
  for (std::uint32_t each = of.first; each < of.first + of.count; ++each) {
    if (spokes_[each].work == 0 && of.batches < at_once_) {
      return wheel_room::idle;
    }
    if (spokes_[each].homes < of.depth()) {
      found = behind_another;
    }
  }
  return found;
}

bool wheel::half_taken(stream_priority priority) const noexcept {
  const group& of = groups_[group_of(priority)];
  return of.span > short_batch && of.batches >= std::max<std::size_t>(1, at_once_ / 2);
}

// The least busy of the group, from where its turn stands; the home must have room for a completion.
void wheel::choose_streams(slot& filled) noexcept {
  group& of = groups_[group_of(filled.work.pipeline->declaration.priority)];
  filled.streams.clear();
  for (std::uint32_t lane = 0; lane < filled.work.pipeline->order.lanes; ++lane) {
    const spoke* best = nullptr;
    std::uint32_t chosen = 0;
    for (std::uint32_t step = 0; step < of.count; ++step) {
      const std::uint32_t at = of.first + (of.turn + step) % of.count;
      const spoke& each = spokes_[at];
      const bool taken = std::find(filled.streams.begin(), filled.streams.end(), at) != filled.streams.end();
      if (!taken && (lane != 0 || each.homes < depth) && (best == nullptr || each.work < best->work)) {
        best = &each;
        chosen = at;
      }
    }
    assert(best != nullptr);
    of.turn = (chosen - of.first + 1) % of.count;
    filled.streams.push_back(chosen);
  }
}

launch_fault wheel::launch(slot& filled, time_point now) noexcept {
  choose_streams(filled);
  filled.work.launched = now;
  filled.launch = ++launches_;
  for (const std::uint32_t each : filled.streams) {
    ++spokes_[each].work;
  }
  spoke& home = spokes_[filled.streams.front()];
  ++home.homes;
  ++in_flight_;
  group& of = groups_[group_of(filled.work.pipeline->declaration.priority)];
  ++of.batches;
  if (filled.work.pipeline->keeps_state()) {
    write_session_frames(filled);
  }
  inline_time_ = {};
  return inline_limit_.count() != 0 && brief(filled.work) ? run_brief(filled) : enqueue_batch(filled);
}

launch_fault wheel::enqueue_batch(slot& with) noexcept {
  if (launch_fault failed = enqueue_work(with); failed.what) {
    return failed;
  }
  return {enqueue_end(with)};
}

fault wheel::fence(slot& refused) noexcept {
  stream& home = *spokes_[refused.streams.front()].queue;
  for (std::size_t lane = 1; lane < refused.streams.size(); ++lane) {
    event& behind = *refused.carried[lane];
    if (fault failed = spokes_[refused.streams[lane]].queue->record(behind)) {
      return failed;
    }
    if (fault failed = home.wait(behind)) {
      return failed;
    }
  }
  return enqueue_end(refused);
}

fault wheel::enqueue_end(slot& with) noexcept {
  spoke& home = spokes_[with.streams.front()];
  if (polls(groups_[group_of(with.work.pipeline->declaration.priority)])) {
    const fault failed = home.queue->record(*with.done);
    // Only now: an event that was not recorded for this batch would say that it is done.
    if (!failed) {
      (home.polled[0] == nullptr ? home.polled[0] : home.polled[1]) = &with;
      ++polled_;
    }
    return failed;
  }
  return home.queue->on_complete(batch_done, &with.completed);
}

// What it takes is what this thread works: that others hold the processor meanwhile is not the batch's doing.
launch_fault wheel::run_brief(slot& with) noexcept {
  const std::int64_t steps = with.work.frames * with.work.leading;
  briefness& expected = brief_[with.work.pipeline->place];
  const time_point begin = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds worked = thread_time();
  let_run_inline(with, true);
  const launch_fault failed = enqueue_batch(with);
  let_run_inline(with, false);
  if (thread_time() - worked > inline_limit_) {
    expected.failed(steps);
  }
  inline_time_ = std::chrono::steady_clock::now() - begin;
  return failed;
}

launch_fault wheel::enqueue_work(slot& with) noexcept {
  lanes_.clear();
  for (const std::uint32_t each : with.streams) {
    lanes_.push_back(spokes_[each].queue.get());
  }
  const plan& what = *with.work.pipeline;
  return batch_work(with, {.lanes = lanes_,
                           .pieces = pieces_,
                           .states = states_.of(what.place),
                           .direct_bytes = what.single_pass ? single_pass_bytes_ : direct_bytes_})
      .enqueue();
}

bool wheel::polls(const group& of) const noexcept {
  return mode_ == completion_mode::poll ||
         (mode_ == completion_mode::automatic && events_come_first_ && of.span <= long_batch);
}

bool wheel::poll() noexcept {
  bool any = false;
  for (spoke& each : spokes_) {
    // A stream runs its batches in order: when the oldest is not done, the one behind it isn't either.
    while (each.polled[0] != nullptr) {
      completion_node& node = each.polled[0]->completed;
      node.status = {};
      const event::state reached = each.polled[0]->done->query(node.status);
      if (reached == event::state::refused) {
        refusal_ = node.status;
      }
      if (reached == event::state::pending || reached == event::state::refused) {
        break;
      }
      node.queue->push(node);
      each.polled[0] = std::exchange(each.polled[1], nullptr);
      --polled_;
      any = true;
    }
  }
  return any;
}

void wheel::retire(slot& completed, time_point now) noexcept {
  for (const std::uint32_t each : completed.streams) {
    --spokes_[each].work;
  }
  spoke& home = spokes_[completed.streams.front()];
  group& of = groups_[group_of(completed.work.pipeline->declaration.priority)];
  // A batch behind another began when that one was done.
  constexpr int memory = 8;
  of.span += (now - std::max(completed.work.launched, home.last_done) - of.span) / memory;
  home.last_done = now;
  --home.homes;
  --of.batches;
  --in_flight_;
  completed.launch = 0;
}

std::int64_t wheel::warm_up(const plan& what, slot& on) {
  const group& of = groups_[group_of(what.declaration.priority)];
  // For what a slot holds at most, so that a plan that comes with a reload has room too.
  pieces_.reserve(on.work.requests.capacity() + 1);
  on.work.pipeline = &what;
  on.work.leading = what.input().shape.front();
  std::int64_t brief_steps = 0;
  bool still_brief = inline_limit_.count() != 0;
  for (std::uint32_t turn = 0; turn < of.count; ++turn) {
    on.streams.clear();
    for (std::uint32_t lane = 0; lane < what.order.lanes; ++lane) {
      on.streams.push_back(of.first + (turn + lane) % of.count);
    }
    // Batch sizes double: an operator may keep a kernel, or an FFT plan, for each power of two.
    for (std::int64_t frames = turn == 0 ? 1 : what.max_frames;; frames = std::min(2 * frames, what.max_frames)) {
      on.work.frames = frames;
      if (what.keeps_state()) {
        write_warm_up_frames(on, states_.places());
      }
      run_once(on);
      still_brief = still_brief && turn == 0 && runs_within(inline_limit_, on);
      if (still_brief) {
        brief_steps = frames * on.work.leading;
      }
      if (frames == what.max_frames) {
        break;
      }
    }
  }
  return brief_steps;
}

void wheel::run_once(slot& on) {
  launch_fault failed = enqueue_work(on);
  for (const std::uint32_t each : on.streams) {
    failed.what = failed.what ? failed.what : spokes_[each].queue->synchronize();
  }
  if (failed.what) {
    throw device_error("pipeline '" + on.work.pipeline->declaration.name + "': the first launch failed" +
                       (*failed.stage != '\0' ? std::string(" at stage '") + failed.stage + "'" : std::string()) +
                       ": " + failed.what.name);
  }
}

bool wheel::runs_within(std::chrono::nanoseconds limit, slot& on) {
  const std::chrono::nanoseconds worked = thread_time();
  let_run_inline(on, true);
  run_once(on);
  let_run_inline(on, false);
  return thread_time() - worked <= limit;
}

void wheel::set_brief(std::uint32_t place, std::int64_t steps) {
  brief_.resize(std::max<std::size_t>(brief_.size(), place + std::size_t{1}));
  brief_[place] = briefness(steps);
}

bool wheel::brief(const batch& work) noexcept {
  const std::uint32_t place = work.pipeline->place;
  return place < brief_.size() && brief_[place].holds(work.frames * work.leading);
}

void wheel::let_run_inline(const slot& work, bool brief) noexcept {
  for (const std::uint32_t each : work.streams) {
    spokes_[each].queue->run_inline(brief);
  }
}

}  // namespace penstock
