#include "kernels/detect.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

constexpr std::size_t block_length = 256;

/// Whether any of block_length samples is at least `high`.
PENSTOCK_VECTOR_CLONES bool any_at_least(const float* samples, float high) {
  unsigned any = 0;
#pragma omp simd reduction(| : any)
  for (std::size_t i = 0; i < block_length; ++i) {
    any |= samples[i] >= high ? 1U : 0U;
  }
  return any != 0;
}

/// The first sample from `index` on that is at least `high`; `count` if there is none.
std::size_t next_start(const float* row, std::size_t index, std::size_t count, float high) noexcept {
  while (index + block_length <= count && !any_at_least(row + index, high)) {
    index += block_length;
  }
  while (index < count && !(row[index] >= high)) {
    ++index;
  }
  return index;
}

/// Goes from an event's start to its end; returns where that is.
std::size_t follow_event(const float* row, std::size_t index, std::size_t count, float low,
                         std::size_t& peak) noexcept {
  peak = index;
  float largest = row[index];
  for (++index; index < count && !(row[index] < low); ++index) {
    if (row[index] > largest) {
      largest = row[index];
      peak = index;
    }
  }
  return index;
}

class detect_host final : public operation {
 public:
  explicit detect_host(detect_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto length = static_cast<std::size_t>(settings_.rows.length(arguments.extent));
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    const std::size_t rows_of_frame =
        rows / static_cast<std::size_t>(std::max<std::int64_t>(arguments.extent.frames, 1));
    for (std::size_t row = 0; row < rows; ++row, in += length, out += settings_.row_results()) {
      list_events(in, length, settings_.thresholds(arguments.numbers, static_cast<std::int64_t>(row / rows_of_frame)),
                  out);
    }
    return {};
  }

 private:
  void list_events(const float* row, std::size_t length, detect_thresholds limits, float* out) const noexcept {
    const auto most = static_cast<std::size_t>(settings_.max_events);
    std::size_t found = 0;
    for (std::size_t index = next_start(row, 0, length, limits.high); index < length;
         index = next_start(row, index, length, limits.high)) {
      std::size_t peak = index;
      index = follow_event(row, index, length, limits.low, peak);
      if (found < most) {
        out[2 * found + 2] = static_cast<float>(peak);
        out[2 * found + 3] = row[peak];
      }
      ++found;
    }
    const std::size_t listed = std::min(found, most);
    out[0] = static_cast<float>(found);
    out[1] = static_cast<float>(listed);
    for (std::size_t unused = listed; unused < most; ++unused) {
      out[2 * unused + 2] = -1.0F;
      out[2 * unused + 3] = 0.0F;
    }
  }

  const detect_settings settings_;
};

/// Searches the channels of sessions.
class detect_session_host final : public operation {
 public:
  explicit detect_session_host(detect_settings settings)
      : settings_{std::move(settings)}, channels_{static_cast<std::size_t>(settings_.channels())} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return channels_ * sizeof(event_state); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    for (std::int32_t first = 0; first < arguments.extent.frames; ++first) {
      const session_frame& entry = arguments.session.frames[first];
      if (entry.previous >= 0) {
        continue;
      }
      const auto* const before = reinterpret_cast<const event_state*>(arguments.session.half(entry.place, entry.half));
      auto* const states = reinterpret_cast<event_state*>(arguments.session.half(entry.place, 1 - entry.half));
      if (entry.position == 0) {
        std::fill_n(states, channels_, event_state{});
      } else {
        std::copy_n(before, channels_, states);
      }
      for (std::int32_t frame = first; frame >= 0; frame = arguments.session.frames[frame].next) {
        search_frame(arguments, frame, states);
      }
    }
    return {};
  }

 private:
  void search_frame(const operation_arguments& arguments, std::int32_t frame, event_state* states) const noexcept {
    const session_frame& entry = arguments.session.frames[frame];
    const detect_thresholds limits = settings_.thresholds(arguments.numbers, frame);
    const auto* const in =
        static_cast<const float*>(arguments.inputs[0]) + frame * settings_.input.elements(arguments.extent.leading);
    auto* const out = static_cast<double*>(arguments.output) + frame * settings_.output.elements();
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      out[channel * channel_results()] = 0.0;
    }
    const std::size_t count = static_cast<std::size_t>(entry.steps) * channels_;
    bool any = std::any_of(states, states + channels_, is_under_way);
    for (std::size_t at = 0; at < count;) {
      if (!any) {
        at = next_start(in, at, count, limits.high) / channels_ * channels_;
        any = at < count;
        continue;
      }
      const std::int64_t sample = entry.position + static_cast<std::int64_t>(at / channels_);
      any = false;
      for (std::size_t channel = 0; channel < channels_; ++channel) {
        take(in[at + channel], sample, limits, states[channel], out + channel * channel_results());
        any = any || is_under_way(states[channel]);
      }
      at += channels_;
    }
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      finish(states[channel], out + channel * channel_results());
    }
  }

  [[nodiscard]] static bool is_under_way(const event_state& state) noexcept { return state.phase != event_state::off; }
  /// Numbers of the output for each channel.
  [[nodiscard]] std::size_t channel_results() const noexcept {
    return static_cast<std::size_t>((settings_.max_events + 1) * event_numbers);
  }

  void take(float value, std::int64_t sample, detect_thresholds limits, event_state& state,
            double* out) const noexcept {
    if (state.phase == event_state::on ? !(value < limits.low) : value >= limits.high) {
      if (state.phase == event_state::off) {
        state = {.start = sample, .end = -1, .peak = sample, .value = value, .phase = event_state::on};
      } else if (value > state.value) {
        state.value = value;
        state.peak = sample;
      }
      state.phase = event_state::on;
      return;
    }
    if (state.phase == event_state::on) {
      state.phase = event_state::pausing;
      state.end = sample;
    }
    if (state.phase == event_state::pausing && sample - state.end >= settings_.gap) {
      state.phase = event_state::off;
      if (state.end - state.start >= settings_.min_length) {
        list(state, out);
      }
    }
  }

  /// out[0] counts the events.
  void list(const event_state& state, double* out) const noexcept {
    if (out[0] < static_cast<double>(settings_.max_events)) {
      double* const row = out + (static_cast<std::ptrdiff_t>(out[0]) + 1) * event_numbers;
      row[0] = static_cast<double>(state.start);
      row[1] = static_cast<double>(state.end);
      row[2] = static_cast<double>(state.peak);
      row[3] = static_cast<double>(state.value);
    }
    out[0] += 1.0;
  }

  void finish(const event_state& state, double* out) const noexcept {
    const auto listed = std::min(static_cast<std::int64_t>(out[0]), settings_.max_events);
    out[1] = static_cast<double>(listed);
    out[2] = is_under_way(state) ? static_cast<double>(state.start) : -1.0;
    out[3] = is_under_way(state) ? static_cast<double>(state.value) : 0.0;
    for (std::int64_t unused = listed + 1; unused <= settings_.max_events; ++unused) {
      std::fill_n(out + unused * event_numbers, event_numbers - 1, -1.0);
      out[unused * event_numbers + event_numbers - 1] = 0.0;
    }
  }

  const detect_settings settings_;
  const std::size_t channels_;
};

}  // namespace

std::unique_ptr<operation> make_detect_host(const operation_request& request) {
  detect_settings settings = parse_detect(request.settings, request.inputs[0]);
  if (settings.along_session) {
    return std::make_unique<detect_session_host>(std::move(settings));
  }
  return std::make_unique<detect_host>(std::move(settings));
}

}  // namespace penstock
