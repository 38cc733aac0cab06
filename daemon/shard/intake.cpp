#include "daemon/shard/intake.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace penstock {
namespace {

// Several clients share a batch when each has much to send: a turn of the queue is this part of a batch.
constexpr std::size_t turns_a_batch = 16;

std::size_t quantum_of(const plan& of) noexcept {
  const std::size_t frame = of.input().bytes();
  return std::max(frame, frame * static_cast<std::size_t>(of.max_frames) / turns_a_batch);
}

// Each request in shared memory has copies of its own, in and for every output out, and may have what was sent before
// it copied apart: so many that all batches of a stream fit its queue.
std::size_t most_shared_of(const plan& of) noexcept {
  constexpr std::size_t copies_a_batch = 512;
  return std::max<std::size_t>(1, copies_a_batch / (2 * (1 + of.outputs.size())));
}

std::chrono::nanoseconds head_start(stream_priority priority) noexcept {
  constexpr std::chrono::milliseconds one_level{10};
  return one_level * (static_cast<int>(priority) - static_cast<int>(stream_priority::normal));
}

}  // namespace

intake::intake(const plan& of, std::size_t in_place_bytes)
    : waiting(quantum_of(of)),
      what_(of),
      most_shared_(most_shared_of(of)),
      in_place_bytes_(in_place_bytes),
      ahead_(head_start(of.declaration.priority)) {}

bool intake::in_place(const request& what, std::span<const std::byte> payload) const noexcept {
  constexpr std::size_t largest_element = 8;
  return payload.size() >= in_place_bytes_ && what.shared.arena == nullptr &&
         reinterpret_cast<std::uintptr_t>(payload.data()) % largest_element == 0;
}

bool intake::fits(const request& what, std::span<const std::byte> payload) const noexcept {
  const batch& work = open_->work;
  if (work.in_place.has_value() || (work.frames != 0 && in_place(what, payload))) {
    return false;
  }
  // A frame that is shorter than the batch's leaves a gap behind it, which only what works step by step can bear.
  const bool length =
      what.leading == work.leading || (what_.mixes_lengths && what.frames == 1 && what.leading < work.leading);
  const bool copies = what.shared.arena == nullptr || work.shared < most_shared_;
  return length && copies && work.frames + what.frames <= what_.max_frames;
}

close_reason intake::reason_against(const request& what) const noexcept {
  const batch& work = open_->work;
  const bool full = work.in_place.has_value() || work.frames + what.frames > what_.max_frames ||
                    (what.shared.arena != nullptr && work.shared >= most_shared_);
  return full ? close_reason::full : close_reason::extent;
}

void intake::open(slot& empty, const request& first) noexcept {
  open_ = &empty;
  empty.work.pipeline = &what_;
  empty.work.leading = first.leading;
  empty.work.oldest = first.received;
}

void intake::put(request& what, std::span<const std::byte> payload) noexcept {
  batch& work = open_->work;
  if (what.shared.arena != nullptr) {
    ++work.shared;  // the device fetches them from where they are
  } else if (in_place(what, payload)) {
    work.in_place = what.index;
  } else {
    const std::size_t pitch = what_.input().bytes(work.leading);
    std::memcpy(open_->pinned_input.get() + static_cast<std::size_t>(work.frames) * pitch, payload.data(),
                payload.size());
  }
  what.home = open_;
  what.first_frame = work.frames;
  what.step = std::max(what.step, request_step::batched);
  work.oldest = std::min(work.oldest, what.received);
  work.frames += what.frames;
  work.requests.push_back(&what);
}

slot& intake::close() noexcept {
  return *std::exchange(open_, nullptr);
}

void intake::served(const request& what, bool heavy, bool held) noexcept {
  if (heavy) {
    heavy_ = what.client;
    passed_over_ = 0;
    // It was light itself, before it had so much.
    light_lately_ = what.client == light_ ? 0 : light_lately_ - std::min(light_lately_, 1U);
  } else if (what.client != heavy_) {
    passed_over_ += held ? 1 : 0;
    light_ = what.client;
    light_lately_ = remembered;
  }
}

batch_fill intake::fill() const noexcept {
  if (open_ == nullptr) {
    return {};
  }
  const batch& work = open_->work;
  // Nothing comes to what stays in place.
  const std::int64_t most = work.in_place.has_value() ? work.frames : what_.max_frames;
  return {work.frames, most, work.oldest, what_.declaration.batch.max_delay};
}

}  // namespace penstock
