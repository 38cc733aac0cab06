#include "daemon/telemetry/recorder.hpp"

#include <algorithm>
#include <utility>

#include "daemon/request/clients.hpp"
#include "daemon/request/sessions.hpp"

namespace penstock {
namespace {

// How many times the cost of reading a batch's times passes before the next one is timed.
constexpr int rest_after_reading = 200;

// Lanes that a plan of a later configuration may have and be timed, whatever those of the start have.
constexpr std::size_t least_lanes = 8;

// More than a stream pool has.
constexpr std::size_t most_streams = 256;

request_reference reference_to(const request& source) noexcept {
  return {.client = source.client->index,
          .session = source.session != nullptr ? source.session->number : 0,
          .id = source.id,
          .sequence = source.sequence,
          .trace_id = source.trace_id,
          .received = source.received,
          .ended_early = source.step == request_step::answered};
}

}  // namespace

recorder::recorder(device& device, clock_pool& clocks, std::span<const plan> plans, std::size_t slots,
                   const timing_settings& settings, time_source now)
    : clocks_(clocks),
      clock_(std::move(now)),
      lanes_(std::max(size_for(plans).lanes, least_lanes)),
      sampling_(clocks.size() == 0 ? 0 : settings.batches_per_second),
      recent_(settings.recent_batches, clocks.size() == 0 ? 0 : clocks.steps(), lanes_),
      timing_(plans.size()),
      drafts_(slots),
      now_(clock_()) {
  sending_.reserve(slots);
  streams_.reserve(most_streams);
  if (clocks.size() != 0 && settings.batches_per_second != 0) {
    device_clock_ = std::make_unique<device_clock>(device, clock_);
  }
}

void recorder::turn(time_point now) noexcept {
  count_replies();
  now_ = now;
  if (device_clock_) {
    device_clock_->turn(now);
  }
}

void recorder::launching(slot& filled) noexcept {
  const batch& work = filled.work;
  pipeline_timing& timing = timing_[work.pipeline->id];
  // Most requests came with others, and those have one time.
  time_point received = never;
  std::uint64_t together = 0;
  for (const request* each : work.requests) {
    if (each->received != received) {
      timing.queued.record(now_ - received, together);
      received = each->received;
      together = 0;
    }
    together += each->step != request_step::answered ? 1U : 0U;
  }
  timing.queued.record(now_ - received, together);
  // The times of steps say nothing without the streams that they ran on.
  const schedule& order = work.pipeline->order;
  const bool fits = order.steps.size() <= clocks_.steps() && order.lanes <= lanes_;
  filled.clock = fits && sampling_.take(now_) ? clocks_.claim() : nullptr;
  if (filled.clock != nullptr) {
    drafts_[filled.index].anchor = device_clock_->hold();
  }
}

void recorder::completed(slot& done) noexcept {
  const batch& work = done.work;
  const draft& before = drafts_[done.index];
  const recent_batches::kept_batch kept = recent_.add();
  batch_record& record = kept.record;
  record.pipeline = work.pipeline->place;
  record.slot = done.index;
  record.reason = work.reason;
  record.failed = done.completed.status || work.refused;
  record.frames = work.frames;
  record.requests = static_cast<std::uint32_t>(work.requests.size());
  record.references = std::min(record.requests, static_cast<std::uint32_t>(recent_batches::most_references));
  record.streams = static_cast<std::uint32_t>(std::min(done.streams.size(), lanes_));
  record.oldest = work.oldest;
  record.opened = before.opened;
  record.closed = before.closed;
  record.launched = work.launched;
  record.completed = now_;
  std::transform(work.requests.begin(), work.requests.begin() + record.references, kept.references.begin(),
                 [](const request* each) { return reference_to(*each); });
  std::copy_n(done.streams.begin(), record.streams, kept.streams.begin());
  for (const std::uint32_t each : done.streams) {
    streams_.resize(std::max<std::size_t>(streams_.size(), each + 1));
    ++streams_[each].batches;
  }
  if (!record.failed) {
    timing_[work.pipeline->id].device.record(now_ - work.launched, record.requests);
  }
  take_clock(done, kept);
  sending_.push_back({&done, record.number});
}

// Once the batch is done its events are reached; those of one that failed say nothing.
void recorder::take_clock(slot& done, const recent_batches::kept_batch& kept) noexcept {
  if (done.clock == nullptr) {
    return;
  }
  const std::uint32_t anchor = drafts_[done.index].anchor;
  const std::size_t steps = done.work.pipeline->order.steps.size();
  const time_point begin = clock_();
  if (!kept.record.failed && read_steps(done, anchor, kept.steps.first(steps))) {
    kept.record.steps = static_cast<std::uint32_t>(steps);
    add_steps(*done.work.pipeline, kept.steps.first(steps));
    add_to_streams(done, kept.steps.first(steps));
  }
  const time_point end = clock_();
  sampling_.pause(now_ + rest_after_reading * (end - begin));
  device_clock_->release(anchor);
  clocks_.give_back(*done.clock);
  done.clock = nullptr;
}

bool recorder::read_steps(const slot& done, std::uint32_t anchor, std::span<step_time> steps) const noexcept {
  const time_point launched = done.work.launched;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const std::optional<time_point> begin = device_clock_->time_of(*done.clock->begins[step], anchor);
    const std::optional<time_point> end = device_clock_->time_of(*done.clock->ends[step], anchor);
    if (!begin || !end) {
      return false;
    }
    steps[step] = {*begin - launched, std::max(*begin, *end) - launched};
  }
  return true;
}

void recorder::add_steps(const plan& pipeline, std::span<const step_time> steps) noexcept {
  pipeline_timing& timing = timing_[pipeline.id];
  const auto length = [](const step_time& step) { return step.end - step.begin; };
  timing.copy_in.record(length(steps.front()));
  const std::span<const step_time> stages = steps.subspan(1, pipeline.stages.size());
  if (!stages.empty()) {
    step_time all = stages.front();
    for (const step_time& each : stages) {
      all = {std::min(all.begin, each.begin), std::max(all.end, each.end)};
    }
    timing.compute.record(length(all));
  }
  std::chrono::nanoseconds copies_out{0};
  for (const step_time& each : steps.subspan(1 + pipeline.stages.size())) {
    copies_out += length(each);
  }
  timing.copy_out.record(copies_out);
}

void recorder::add_to_streams(const slot& done, std::span<const step_time> steps) noexcept {
  for (const std::uint32_t each : done.streams) {
    ++streams_[each].timed_batches;
  }
  const plan& pipeline = *done.work.pipeline;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    stream_timing& busy = streams_[done.streams[pipeline.order.steps[step].lane]];
    std::chrono::nanoseconds& total = step == 0                        ? busy.copy_in
                                      : step <= pipeline.stages.size() ? busy.compute
                                                                       : busy.copy_out;
    total += steps[step].end - steps[step].begin;
  }
}

void recorder::replied(const request& done) noexcept {
  if (done.received != replies_.received || done.pipeline->id != replies_.pipeline) {
    count_replies();
    replies_ = {done.pipeline->id, done.received, 0};
  }
  ++replies_.count;
}

void recorder::count_replies() noexcept {
  if (replies_.count != 0) {
    timing_[replies_.pipeline].total.record(now_ - replies_.received, replies_.count);
    replies_.count = 0;
  }
}

// Who dropped the last reference pushed the slot to the ring, or is about to: it can't be in use again before the ring
// has collected it, and after that this is called first.
void recorder::collected() noexcept {
  std::erase_if(sending_, [this](const sending& each) {
    if (each.source->references.load(std::memory_order_relaxed) != 0) {
      return false;
    }
    if (recent_.has(each.number)) {
      recent_.at(each.number).record.returned = now_;
    }
    return true;
  });
}

}  // namespace penstock
