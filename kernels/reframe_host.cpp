#include "kernels/reframe.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/session.hpp"

namespace penstock {
namespace {

class reframe_host final : public operation {
 public:
  explicit reframe_host(reframe_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override {
    return static_cast<std::size_t>(settings_.kept) * settings_.step_bytes;
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const session_history<std::byte> history{
        .input = static_cast<const std::byte*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = static_cast<std::int64_t>(settings_.input.bytes(extent.leading)),
        .channels = static_cast<std::int64_t>(settings_.step_bytes),
        .length = settings_.kept,
    };
    const std::size_t pitch = settings_.output.bytes(settings_.rate().most(extent.leading));
    auto* out = static_cast<std::byte*>(arguments.output);
    for (std::int32_t index = 0; index < extent.frames;) {
      const auto same = static_cast<std::size_t>(unchanged(history, index, extent.frames, pitch));
      if (same != 0) {
        std::memcpy(out, history.input + index * history.pitch, same * pitch);
      } else {
        copy_rows(history, index, out);
      }
      const std::size_t done = std::max<std::size_t>(same, 1);
      index += static_cast<std::int32_t>(done);
      out += done * pitch;
    }
    for (std::int32_t index = 0; index < extent.frames; ++index) {
      keep_waiting(history, index);
    }
    return {};
  }

 private:
  /// Number of frames from this one on whose rows are their own steps, each once, in all of their space: they are
  /// copied as they are.
  std::int32_t unchanged(const session_history<std::byte>& history, std::int32_t index, std::int64_t frames,
                         std::size_t pitch) const noexcept {
    const std::int32_t first = index;
    for (; settings_.hop == settings_.length && index < frames; ++index) {
      const session_frame& frame = history.session.frames[index];
      const std::int64_t bytes = frame.steps * history.channels;
      if (settings_.start(frame.position) != frame.position || frame.produced * settings_.length != frame.steps ||
          bytes != history.pitch || static_cast<std::size_t>(bytes) != pitch) {
        break;
      }
    }
    return index - first;
  }

  /// Copies the rows that a frame completes.
  void copy_rows(const session_history<std::byte>& history, std::int32_t index, std::byte* out) const noexcept {
    const session_frame& frame = history.session.frames[index];
    std::int64_t start = settings_.start(frame.position) - frame.position;
    if (settings_.hop == settings_.length) {
      copy_steps(history, index, start, frame.produced * settings_.length, out);
      return;
    }
    const std::int64_t row_bytes = settings_.length * history.channels;
    std::int64_t row = 0;
    for (; row < frame.produced && start < 0; ++row, start += settings_.hop) {
      copy_steps(history, index, start, settings_.length, out + row * row_bytes);
    }
    const std::byte* from = history.input + index * history.pitch + start * history.channels;
    for (; row < frame.produced; ++row, from += settings_.hop * history.channels) {
      std::memcpy(out + row * row_bytes, from, static_cast<std::size_t>(row_bytes));
    }
  }

  /// Writes the new state of a session: only the steps of its incomplete row are read later.
  void keep_waiting(const session_history<std::byte>& history, std::int32_t index) const noexcept {
    const session_frame& frame = history.session.frames[index];
    if (frame.next < 0) {
      const std::int64_t taken = frame.position + frame.steps;
      const std::int64_t waiting = std::max<std::int64_t>(taken - settings_.start(taken), 0);
      copy_steps(history, index, frame.steps - waiting, waiting, history.kept(frame, -waiting));
    }
  }

  const reframe_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_reframe_host(const operation_request& request) {
  return std::make_unique<reframe_host>(parse_reframe(request.settings, request.inputs[0]));
}

}  // namespace penstock
