#include "tests/bench/overlap/core_way.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include <poll.h>

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint32_t credits = 1024;
constexpr std::array priorities{stream_priority::normal};

std::vector<plan> plans_of(device& on, const overlap_work& what, std::size_t chunks) {
  std::vector<plan> made;
  made.push_back(compile_plan(what.declaration(chunks), 0, on));
  return made;
}

timing_settings timing_of(bool timed) {
  return {.batches_per_second = timed ? 1'000'000U : 0U, .recent_batches = 256};
}

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

void core_way::reply_count::result(const request& /*of*/, slot& /*from*/) {
  ++results;
}

void core_way::reply_count::error(const request& /*of*/, wire::status /*code*/, const wire::error_body& /*why*/) {
  ++errors;
}

std::span<std::byte> core_way::nothing_parked::parked(std::uint32_t /*place*/) noexcept {
  return {};
}

void core_way::nothing_parked::unpark(std::uint32_t /*place*/) noexcept {}

core_way::core_way(device& on, const overlap_work& what, std::size_t chunks, completion_mode mode, bool timed)
    : plans_(plans_of(on, what, chunks)),
      chunks_(chunks),
      slots_(on, std::max<std::size_t>(chunks, 2), size_for(plans_), mode == completion_mode::poll, completed_,
             signal_),
      states_(on, plans_, 1),
      clocks_(on, plans_, timed ? slots_.size() : 0),
      streams_(on, static_cast<int>(overlap_streams), priorities, mode, states_),
      clients_(1, credits),
      book_(plans_.size(), replies_, counters_),
      timeline_(on, clocks_, plans_, slots_.size(), timing_of(timed), clock::now),
      path_(plans_, slots_, streams_, completed_, book_, payloads_, timeline_) {
  fill_slots();
}

core_way::~core_way() {
  while (!path_.idle()) {
    path_.turn(clock::now());
  }
}

void core_way::fill_slots() {
  std::vector<slot*> held;
  for (slot* each = slots_.claim(); each != nullptr; each = slots_.claim()) {
    held.push_back(each);
    for (std::size_t at = 0; at + sizeof(float) <= slots_.slot_bytes().pinned_input; at += sizeof(float)) {
      const float value = static_cast<float>((at * 2654435761U) % 20011U) / 10006.0F - 1.0F;
      std::memcpy(each->pinned_input.get() + at, &value, sizeof value);
    }
  }
  streams_.set_brief(plans_.front().place, streams_.warm_up(plans_.front(), *held.front()));
  for (slot* each : held) {
    ring::drop(*each);
  }
  slots_.collect();
}

void core_way::submit_chunk() {
  const plan& pipeline = plans_.front();
  const time_point now = clock::now();
  wire::message_header header;
  header.request_id = ++sent_;
  header.frames = static_cast<std::uint32_t>(pipeline.max_frames);
  client_record& client = *clients_.admit("overlap", now);
  const std::size_t bytes = header.frames * pipeline.input().bytes();
  const ledger::admitted what{.pipeline = &pipeline, .leading = pipeline.input().shape.front(), .bytes = bytes};
  request& made = book_.open(client, header, what, now);
  (void)path_.submit(made, {});
  path_.turn(now);
}

void core_way::wait_for_news() {
  if (streams_.polling()) {
    return;
  }
  signal_.prepare();
  if (completed_.empty() && !slots_.has_returned()) {
    pollfd descriptor{signal_.descriptor(), POLLIN, 0};
    ::poll(&descriptor, 1, 1000);
  }
  signal_.awake();
}

double core_way::run() {
  const std::size_t wanted = replies_.results + chunks_;
  const clock::time_point begin = clock::now();
  for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
    submit_chunk();
  }
  while (replies_.results < wanted) {
    if (replies_.errors != 0 || path_.lost()) {
      throw std::runtime_error("the device failed under the daemon's core");
    }
    if (!path_.turn(clock::now())) {
      wait_for_news();
    }
  }
  return std::chrono::duration<double>(clock::now() - begin).count();
}

std::vector<timeline_bar> core_way::timeline() {
  std::vector<timeline_bar> bars;
  recent_batches& recent = timeline_.batches();
  time_point first = never;
  for (std::uint64_t number = recent.next() - chunks_; number < recent.next(); ++number) {
    const recent_batches::kept_batch batch = recent.at(number);
    if (batch.what.steps != 3) {
      return {};
    }
    first = std::min(first, batch.what.launched + batch.steps[0].begin);
  }
  for (std::uint64_t number = recent.next() - chunks_; number < recent.next(); ++number) {
    const recent_batches::kept_batch batch = recent.at(number);
    constexpr std::array names{"copy in", "compute", "copy out"};
    for (std::size_t step = 0; step < names.size(); ++step) {
      bars.push_back({batch.streams[0], names[step],
                      microseconds(batch.what.launched + batch.steps[step].begin - first),
                      microseconds(batch.what.launched + batch.steps[step].end - first)});
    }
  }
  return bars;
}

}  // namespace penstock::bench
