#include "daemon/batch/batch_builder.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace penstock {
namespace {

// A client's turn is worth this part of a batch, so that several busy clients share one.
constexpr std::size_t turns_a_batch = 16;

std::size_t quantum_of(const plan& pipeline) noexcept {
  const std::size_t frame = pipeline.frame_bytes(pipeline.input().shape.front());
  return std::max(frame, frame * static_cast<std::size_t>(pipeline.max_frames) / turns_a_batch);
}

// Each shared request adds a copy in for every input, one out for every output, and perhaps others for what lies before
// it. The
// limit keeps all batches of a stream within the stream's queue.
std::size_t most_shared_of(const plan& pipeline) noexcept {
  constexpr std::size_t copies_a_batch = 512;
  return std::max<std::size_t>(1, copies_a_batch / (2 * (pipeline.inputs + pipeline.outputs.size())));
}

std::chrono::nanoseconds head_start(stream_priority priority) noexcept {
  constexpr std::chrono::milliseconds one_level{10};
  return one_level * (static_cast<int>(priority) - static_cast<int>(stream_priority::normal));
}

}  // namespace

batch_builder::batch_builder(const plan& pipeline, std::size_t in_place_bytes)
    : waiting(quantum_of(pipeline)),
      pipeline_(pipeline),
      most_shared_(most_shared_of(pipeline)),
      in_place_bytes_(pipeline.inputs == 1 ? in_place_bytes : SIZE_MAX),
      ahead_(head_start(pipeline.declaration.priority)) {}

payload_mode batch_builder::mode_of(const request& accepted, std::span<const std::byte> payload) const noexcept {
  constexpr std::size_t largest_element = 8;
  if (accepted.payload == payload_mode::shared) {
    return payload_mode::shared;
  }
  if (payload.size() < in_place_bytes_ || reinterpret_cast<std::uintptr_t>(payload.data()) % largest_element != 0) {
    return payload_mode::copied;
  }
  return pipeline_.rewrites_input ? payload_mode::rewritten : payload_mode::in_place;
}

bool batch_builder::fits(const request& next) const noexcept {
  const batch& work = open_->work;
  if (stays_in_message(work.payload) || (work.frames != 0 && stays_in_message(next.payload))) {
    return false;
  }
  // A frame shorter than the batch's leaves a gap behind it, which only step-by-step pipelines can bear.
  const bool length =
      next.leading == work.leading || (pipeline_.mixes_lengths && next.frames == 1 && next.leading < work.leading);
  const bool copies = next.payload != payload_mode::shared || work.shared < most_shared_;
  return length && copies && work.frames + next.frames <= pipeline_.max_frames;
}

close_reason batch_builder::reason_against(const request& next) const noexcept {
  const batch& work = open_->work;
  const bool full = stays_in_message(work.payload) || stays_in_message(next.payload) ||
                    work.frames + next.frames > pipeline_.max_frames ||
                    (next.payload == payload_mode::shared && work.shared >= most_shared_);
  return full ? close_reason::full : close_reason::extent;
}

void batch_builder::open(slot& empty, const request& first) noexcept {
  open_ = &empty;
  empty.work.pipeline = &pipeline_;
  empty.work.leading = first.leading;
  empty.work.oldest = first.received;
}

void batch_builder::put(request& next, std::span<const std::byte> payload) noexcept {
  batch& work = open_->work;
  switch (next.payload) {
    case payload_mode::copied:
      for (std::size_t input = 0; input < pipeline_.inputs; ++input) {
        const plan_buffer& buffer = pipeline_.buffers[input];
        const std::size_t bytes = pipeline_.inputs == 1 ? payload.size() : buffer.pitch(next.leading) * next.frames;
        std::memcpy(open_->pinned_input.get() + pipeline_.inputs_pinned[input] +
                        static_cast<std::size_t>(work.frames) * buffer.pitch(work.leading),
                    payload.data(), bytes);
        payload = payload.subspan(bytes);
      }
      break;
    case payload_mode::in_place:
    case payload_mode::rewritten:
      work.payload = next.payload;
      work.message = next.index;
      break;
    case payload_mode::shared:
      work.payload = payload_mode::shared;
      ++work.shared;
      break;
  }
  next.home = open_;
  next.first_frame = work.frames;
  next.step = std::max(next.step, request_step::batched);
  work.oldest = std::min(work.oldest, next.received);
  work.frames += next.frames;
  work.requests.push_back(&next);
}

std::optional<close_reason> batch_builder::due(stream_room room, time_point now) const noexcept {
  if (open_ == nullptr) {
    return std::nullopt;
  }
  const batch& work = open_->work;
  if (stays_in_message(work.payload) || work.frames >= pipeline_.max_frames) {
    return close_reason::full;
  }
  if (room == stream_room::idle) {
    return close_reason::idle;
  }
  if (room == stream_room::some && now >= next_decision()) {
    return close_reason::delay;
  }
  return std::nullopt;
}

time_point batch_builder::next_decision() const noexcept {
  return open_ == nullptr ? never : open_->work.oldest + pipeline_.declaration.batch.max_delay;
}

slot& batch_builder::close() noexcept {
  return *std::exchange(open_, nullptr);
}

void batch_builder::served(const request& next, bool heavy, bool held) noexcept {
  if (heavy) {
    heavy_ = next.client;
    passed_over_ = 0;
    // The same client was light before it had so much waiting.
    light_lately_ = next.client == light_ ? 0 : light_lately_ - std::min(light_lately_, 1U);
  } else if (next.client != heavy_) {
    passed_over_ += held ? 1 : 0;
    light_ = next.client;
    light_lately_ = remembered;
  }
}

}  // namespace penstock
