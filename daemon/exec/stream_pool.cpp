#include "daemon/exec/stream_pool.hpp"

#include <algorithm>
#include <cassert>
#include <ctime>
#include <string>
#include <utility>

#include "daemon/exec/batch_launch.hpp"

namespace penstock {
namespace {

// Runs on the device's thread. It stores the status, pushes the slot, wakes the shard.
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

std::vector<std::unique_ptr<stream>> open_streams(device& device, const stream_class& wanted, int count) {
  std::vector<std::unique_ptr<stream>> made;
  if (wanted.blocks) {
    made.push_back(device.open_blocking_stream());
    return made;
  }
  for (int each = 0; each < count; ++each) {
    made.push_back(device.open_stream(wanted.priority));
  }
  return made;
}

stream_pool::stream_pool(device& device, int streams, std::span<const stream_class> classes, completion_mode mode,
                         const state_pool& states)
    : device_(device),
      mode_(mode),
      direct_bytes_(device.facts().direct_bytes),
      single_pass_bytes_(device.facts().single_pass_bytes),
      in_place_bytes_(device.facts().in_place_bytes),
      single_pass_in_place_bytes_(device.facts().single_pass_in_place_bytes),
      events_come_first_(device.facts().events_come_first),
      inline_limit_(device.facts().inline_limit),
      at_once_(device.facts().at_once != 0 ? device.facts().at_once : static_cast<std::size_t>(streams)),
      states_(states) {
  for (const stream_class& each : classes) {
    add(each, open_streams(device, each, streams));
  }
}

void stream_pool::add(const stream_class& added, std::vector<std::unique_ptr<stream>> streams) {
  groups_.push_back(
      {added, static_cast<std::uint32_t>(streams_.size()), static_cast<std::uint32_t>(streams.size()), 0, 0, {}});
  for (std::unique_ptr<stream>& each : streams) {
    streams_.emplace_back().queue = std::move(each);
  }
  lanes_.reserve(streams_.size());
}

std::size_t stream_pool::group_of(const stream_class& wanted) const noexcept {
  const auto found =
      std::find_if(groups_.begin(), groups_.end(), [&](const stream_group& each) { return each.streams == wanted; });
  assert(found != groups_.end());
  return static_cast<std::size_t>(found - groups_.begin());
}

stream_room stream_pool::room(const stream_class& wanted, bool alone) const noexcept {
  const stream_group& group = groups_[group_of(wanted)];
  const std::size_t at_once = at_once_on(group);
  if (group.batches >= group.depth() * at_once) {
    return stream_room::none;
  }
  const stream_room behind_another = alone && group.span <= short_batch ? stream_room::idle : stream_room::some;
  stream_room found = stream_room::none;
  for (std::uint32_t each = group.first; each < group.first + group.count; ++each) {
    if (streams_[each].work == 0 && group.batches < at_once) {
      return stream_room::idle;
    }
    if (streams_[each].homes < group.depth()) {
      found = behind_another;
    }
  }
  return found;
}

bool stream_pool::half_taken(const stream_class& wanted) const noexcept {
  const stream_group& group = groups_[group_of(wanted)];
  return group.span > short_batch && group.batches >= std::max<std::size_t>(1, at_once_on(group) / 2);
}

// Chooses the least busy streams of the group, starting at its turn. The home stream must have room for a completion.
void stream_pool::choose_streams(slot& filled) noexcept {
  stream_group& group = groups_[group_of(filled.work.pipeline->streams())];
  filled.streams.clear();
  for (std::uint32_t lane = 0; lane < filled.work.pipeline->order.lanes; ++lane) {
    const stream_record* best = nullptr;
    std::uint32_t chosen = 0;
    for (std::uint32_t step = 0; step < group.count; ++step) {
      const std::uint32_t index = group.first + (group.turn + step) % group.count;
      const stream_record& each = streams_[index];
      const bool taken = std::find(filled.streams.begin(), filled.streams.end(), index) != filled.streams.end();
      if (!taken && (lane != 0 || each.homes < depth) && (best == nullptr || each.work < best->work)) {
        best = &each;
        chosen = index;
      }
    }
    assert(best != nullptr);
    group.turn = (chosen - group.first + 1) % group.count;
    filled.streams.push_back(chosen);
  }
}

launch_fault stream_pool::launch(slot& filled, time_point now) noexcept {
  choose_streams(filled);
  filled.work.launched = now;
  filled.launch = ++launches_;
  for (const std::uint32_t each : filled.streams) {
    ++streams_[each].work;
  }
  stream_record& home = streams_[filled.streams.front()];
  ++home.homes;
  ++in_flight_;
  stream_group& group = groups_[group_of(filled.work.pipeline->streams())];
  ++group.batches;
  if (filled.work.pipeline->keeps_state()) {
    write_session_frames(filled);
  }
  if (filled.work.pipeline->is_tuned()) {
    write_numbers(filled);
  }
  inline_time_ = {};
  return inline_limit_.count() != 0 && is_brief(filled.work) ? run_inline(filled) : enqueue_batch(filled);
}

launch_fault stream_pool::enqueue_batch(slot& slot) noexcept {
  if (launch_fault failed = enqueue_work(slot); failed.error) {
    return failed;
  }
  return {enqueue_end(slot)};
}

fault stream_pool::fence(slot& refused) noexcept {
  stream& home = *streams_[refused.streams.front()].queue;
  for (std::size_t lane = 1; lane < refused.streams.size(); ++lane) {
    event& lane_end = *refused.carried[lane];
    if (fault failed = streams_[refused.streams[lane]].queue->record(lane_end)) {
      return failed;
    }
    if (fault failed = home.wait(lane_end)) {
      return failed;
    }
  }
  return enqueue_end(refused);
}

fault stream_pool::enqueue_end(slot& slot) noexcept {
  stream_record& home = streams_[slot.streams.front()];
  if (polls(groups_[group_of(slot.work.pipeline->streams())])) {
    const fault failed = home.queue->record(*slot.done);
    // Only after the record: an event of an earlier batch would report this one as done.
    if (!failed) {
      (home.polled[0] == nullptr ? home.polled[0] : home.polled[1]) = &slot;
      ++polled_;
    }
    return failed;
  }
  return home.queue->on_complete(batch_done, &slot.completed);
}

// Measured in processor time of this thread: time in which others hold the processor does not count.
launch_fault stream_pool::run_inline(slot& slot) noexcept {
  const std::int64_t steps = slot.work.frames * slot.work.leading;
  inline_limit& expected = inline_limits_[slot.work.pipeline->place];
  const time_point begin = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds worked = thread_time();
  set_inline(slot, true);
  const launch_fault failed = enqueue_batch(slot);
  set_inline(slot, false);
  if (thread_time() - worked > inline_limit_) {
    expected.failed(steps);
  }
  inline_time_ = std::chrono::steady_clock::now() - begin;
  return failed;
}

launch_fault stream_pool::enqueue_work(slot& slot) noexcept {
  lanes_.clear();
  for (const std::uint32_t each : slot.streams) {
    lanes_.push_back(streams_[each].queue.get());
  }
  const plan& pipeline = *slot.work.pipeline;
  return batch_launch(slot, {.lanes = lanes_,
                             .pieces = pieces_,
                             .copied = copied_,
                             .states = states_.states_of(pipeline.place),
                             .direct_bytes = pipeline.single_pass ? single_pass_bytes_ : direct_bytes_})
      .enqueue();
}

bool stream_pool::polls(const stream_group& group) const noexcept {
  if (group.streams.blocks) {
    return false;  // only its completion tells a fault of the batch
  }
  return mode_ == completion_mode::poll ||
         (mode_ == completion_mode::automatic && events_come_first_ && group.span <= long_batch);
}

bool stream_pool::poll() noexcept {
  bool any = false;
  for (stream_record& each : streams_) {
    // A stream runs its batches in order: if the oldest is not done, the one behind it is not either.
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

void stream_pool::retire(slot& completed, time_point now) noexcept {
  for (const std::uint32_t each : completed.streams) {
    --streams_[each].work;
  }
  stream_record& home = streams_[completed.streams.front()];
  stream_group& group = groups_[group_of(completed.work.pipeline->streams())];
  // A batch behind another began when that one was done.
  constexpr int memory = 8;
  group.span += (now - std::max(completed.work.launched, home.last_done) - group.span) / memory;
  home.last_done = now;
  --home.homes;
  --group.batches;
  --in_flight_;
  completed.launch = 0;
}

std::int64_t stream_pool::warm_up(const plan& pipeline, slot& slot) {
  const stream_group& group = groups_[group_of(pipeline.streams())];
  // For the most that a slot holds, so that plans of a later reload fit too.
  pieces_.reserve(std::max(pieces_.capacity(), slot.work.requests.capacity() * pipeline.inputs + 1));
  slot.work.pipeline = &pipeline;
  slot.work.leading = pipeline.input().shape.front();
  std::int64_t inline_steps = 0;
  bool still_brief = inline_limit_.count() != 0;
  for (std::uint32_t turn = 0; turn < group.count; ++turn) {
    slot.streams.clear();
    for (std::uint32_t lane = 0; lane < pipeline.order.lanes; ++lane) {
      slot.streams.push_back(group.first + (turn + lane) % group.count);
    }
    // Batch sizes double: an operator may keep a kernel, or an FFT plan, for each power of two.
    for (std::int64_t frames = turn == 0 && !pipeline.blocks ? 1 : pipeline.max_frames;;
         frames = std::min(2 * frames, pipeline.max_frames)) {
      slot.work.frames = frames;
      if (pipeline.keeps_state()) {
        write_warm_up_frames(slot, states_.sessions());
      }
      if (pipeline.is_tuned()) {
        write_warm_up_numbers(slot);
      }
      run_once(slot);
      still_brief = still_brief && turn == 0 && runs_within(inline_limit_, slot);
      if (still_brief) {
        inline_steps = frames * slot.work.leading;
      }
      if (frames == pipeline.max_frames) {
        break;
      }
    }
  }
  copied_ = {};  // nobody asked for these
  return inline_steps;
}

void stream_pool::run_once(slot& slot) {
  launch_fault failed = enqueue_work(slot);
  for (const std::uint32_t each : slot.streams) {
    failed.error = failed.error ? failed.error : streams_[each].queue->synchronize();
  }
  if (failed.error) {
    const std::string& name = slot.work.pipeline->declaration.name;
    throw launch_error(name, "pipeline '" + name + "': the first launch failed" +
                                 (*failed.stage != '\0' ? std::string(" at stage '") + failed.stage + "'" : "") + ": " +
                                 text_of(failed.error));
  }
}

bool stream_pool::runs_within(std::chrono::nanoseconds limit, slot& slot) {
  const std::chrono::nanoseconds worked = thread_time();
  set_inline(slot, true);
  run_once(slot);
  set_inline(slot, false);
  return thread_time() - worked <= limit;
}

void stream_pool::set_inline_steps(std::uint32_t place, std::int64_t steps) {
  inline_limits_.resize(std::max<std::size_t>(inline_limits_.size(), place + std::size_t{1}));
  inline_limits_[place] = inline_limit(steps);
}

bool stream_pool::is_brief(const batch& work) noexcept {
  const std::uint32_t place = work.pipeline->place;
  return place < inline_limits_.size() && inline_limits_[place].holds(work.frames * work.leading);
}

void stream_pool::set_inline(const slot& work, bool brief) noexcept {
  for (const std::uint32_t each : work.streams) {
    streams_[each].queue->run_inline(brief);
  }
}

}  // namespace penstock
