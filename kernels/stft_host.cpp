#include "kernels/stft.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/fft_host.hpp"
#include "kernels/fourier.hpp"
#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

[[nodiscard]] constexpr std::size_t aligned_floats_of(std::int64_t floats) noexcept {
  return fft_plan::aligned_space(static_cast<std::size_t>(floats));
}

/// row[i] = weights[i] · steps[i · stride], of real elements, then of complex ones.
PENSTOCK_VECTOR_CLONES void weigh_real(const float* __restrict steps, std::int64_t stride,
                                       const float* __restrict weights, std::int64_t count, float* __restrict row) {
  if (stride == 1) {
    for (std::int64_t at = 0; at < count; ++at) {
      row[at] = weights[at] * steps[at];
    }
    return;
  }
  for (std::int64_t at = 0; at < count; ++at) {
    row[at] = weights[at] * steps[at * stride];
  }
}
PENSTOCK_VECTOR_CLONES void weigh_complex(const float* __restrict steps, std::int64_t stride,
                                          const float* __restrict weights, std::int64_t count, float* __restrict row) {
  for (std::int64_t at = 0; at < count; ++at) {
    row[2 * at] = weights[at] * steps[at * stride];
    row[2 * at + 1] = weights[at] * steps[at * stride + 1];
  }
}

/// sum[i] += weights[i] · row[i], likewise.
PENSTOCK_VECTOR_CLONES void add_real(const float* __restrict row, const float* __restrict weights, std::int64_t count,
                                     float* __restrict sum) {
  for (std::int64_t at = 0; at < count; ++at) {
    sum[at] += weights[at] * row[at];
  }
}
PENSTOCK_VECTOR_CLONES void add_complex(const float* __restrict row, const float* __restrict weights,
                                        std::int64_t count, float* __restrict sum) {
  for (std::int64_t at = 0; at < count; ++at) {
    sum[2 * at] += weights[at] * row[2 * at];
    sum[2 * at + 1] += weights[at] * row[2 * at + 1];
  }
}

/// One transform for each row and channel, which stays in the cache.
class stft_host final : public operation {
 public:
  stft_host(stft_settings settings, std::unique_ptr<operation> transform)
      : settings_{std::move(settings)},
        parts_{is_complex(settings_.input.type) ? 2 : 1},
        steps_space_{aligned_floats_of(settings_.window.length * settings_.channels * parts_)},
        row_space_{aligned_floats_of(settings_.window.length * parts_)},
        transform_{std::move(transform)} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (steps_space_ + row_space_) * sizeof(float) + transform_->scratch_bytes();
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading) * parts_,
        .channels = settings_.channels * parts_,
        .length = settings_.frames.kept,
    };
    const std::int64_t pitch = settings_.output.elements(settings_.frames.rate().most(extent.leading)) * 2;
    auto* out = static_cast<float*>(arguments.output);
    for (std::int32_t index = 0; index < extent.frames; ++index, out += pitch) {
      if (const fault failed = transform(stream, history, index, static_cast<float*>(arguments.scratch), out)) {
        return failed;
      }
    }
    keep_steps(history, extent.frames);
    return {};
  }

 private:
  fault transform(void* stream, const session_history<float>& history, std::int32_t index, float* scratch,
                  float* out) const noexcept {
    const session_frame& frame = history.session.frames[index];
    const stft_window& window = settings_.window;
    float* const row = scratch + steps_space_;
    const void* const inputs[] = {row};
    operation_arguments of_row;
    of_row.inputs = inputs;
    of_row.scratch = row + row_space_;
    of_row.extent.frames = 1;
    std::int64_t first = settings_.frames.start(frame.position) - frame.position;
    for (std::int32_t done = 0; done < frame.produced; ++done, first += window.hop) {
      const float* steps = history.input + index * history.pitch + first * history.channels;
      if (first < 0) {
        copy_steps(history, index, first, window.length, scratch);
        steps = scratch;
      }
      for (std::int64_t channel = 0; channel < settings_.channels; ++channel, out += 2 * settings_.bins()) {
        const auto weigh = parts_ == 2 ? weigh_complex : weigh_real;
        weigh(steps + channel * parts_, history.channels, window.weights.data(), window.length, row);
        of_row.output = out;
        if (const fault failed = transform_->run(stream, of_row)) {
          return failed;
        }
      }
    }
    return {};
  }

  const stft_settings settings_;
  const std::int64_t parts_;  ///< floats of an element
  const std::size_t steps_space_;
  const std::size_t row_space_;
  const std::unique_ptr<operation> transform_;  ///< of one row
};

/// The state is what the rows until now have added to results that are not complete, channel by channel.
class istft_host final : public operation {
 public:
  istft_host(istft_settings settings, std::unique_ptr<operation> transform)
      : settings_{std::move(settings)},
        parts_{settings_.half ? 1 : 2},
        waiting_{std::max<std::int64_t>((settings_.window.length - settings_.window.hop) * parts_, 1)},
        row_space_{aligned_floats_of(settings_.window.length * parts_)},
        transform_{std::move(transform)} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return static_cast<std::size_t>(settings_.channels + 1) * row_space_ * sizeof(float) + transform_->scratch_bytes();
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override {
    return static_cast<std::size_t>(settings_.channels * waiting_) * sizeof(float);
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const std::int64_t in_pitch = settings_.input.elements(extent.leading) * 2;
    const std::int64_t out_pitch = settings_.output.elements(settings_.rate().most(extent.leading)) * parts_;
    for (std::int32_t index = 0; index < extent.frames; ++index) {
      const auto* const in = static_cast<const float*>(arguments.inputs[0]) + index * in_pitch;
      auto* const out = static_cast<float*>(arguments.output) + index * out_pitch;
      if (const fault failed = add_frame(stream, arguments, index, in, out)) {
        return failed;
      }
    }
    return {};
  }

 private:
  /// The frames of a session follow one another: each but the first goes on from what the one before it wrote.
  fault add_frame(void* stream, const operation_arguments& arguments, std::int32_t index, const float* in,
                  float* out) const noexcept {
    const session_frame& frame = arguments.session.frames[index];
    auto* const kept = reinterpret_cast<float*>(arguments.session.half(frame.place, 1 - frame.half));
    const auto* const waiting =
        frame.previous < 0 ? reinterpret_cast<const float*>(arguments.session.half(frame.place, frame.half)) : kept;
    auto* const sums = static_cast<float*>(arguments.scratch);
    for (std::int64_t channel = 0; channel < settings_.channels; ++channel) {
      float* const sum = sums + channel * static_cast<std::int64_t>(row_space_);
      std::fill_n(sum, row_space_, 0.0F);
      if (frame.position > 0) {
        std::copy_n(waiting + channel * waiting_, overlap(), sum);
      }
    }
    float* const row = sums + settings_.channels * static_cast<std::int64_t>(row_space_);
    operation_arguments of_row;
    of_row.output = row;
    of_row.scratch = row + row_space_;
    of_row.extent.frames = 1;
    std::int64_t result = frame.position * settings_.window.hop - settings_.window.padding;
    for (std::int64_t step = 0; step < frame.steps; ++step, result += settings_.window.hop) {
      const std::int64_t before = std::min(frame.position + step, settings_.before);
      const std::int64_t skipped = std::clamp<std::int64_t>(-result, 0, settings_.window.hop);
      for (std::int64_t channel = 0; channel < settings_.channels; ++channel, in += 2 * settings_.input.shape.back()) {
        const void* const inputs[] = {in};
        of_row.inputs = inputs;
        if (const fault failed = transform_->run(stream, of_row)) {
          return failed;
        }
        float* const sum = sums + channel * static_cast<std::int64_t>(row_space_);
        const auto add = parts_ == 2 ? add_complex : add_real;
        add(row, settings_.window.weights.data(), settings_.window.length, sum);
        give(sum, before * settings_.window.hop, skipped, out + channel * parts_);
        std::copy(sum + settings_.window.hop * parts_, sum + settings_.window.length * parts_, sum);
        std::fill_n(sum + overlap(), settings_.window.hop * parts_, 0.0F);
      }
      out += (settings_.window.hop - skipped) * settings_.channels * parts_;
    }
    for (std::int64_t channel = 0; channel < settings_.channels; ++channel) {
      std::copy_n(sums + channel * static_cast<std::int64_t>(row_space_), waiting_, kept + channel * waiting_);
    }
    return {};
  }

  /// Floats of a channel that wait for later rows.
  [[nodiscard]] std::int64_t overlap() const noexcept {
    return (settings_.window.length - settings_.window.hop) * parts_;
  }

  /// The results that are complete, but for the first `skipped`.
  void give(const float* sum, std::int64_t scale, std::int64_t skipped, float* out) const noexcept {
    for (std::int64_t at = skipped; at < settings_.window.hop; ++at, out += settings_.channels * parts_) {
      const float factor = settings_.scale[static_cast<std::size_t>(scale + at)];
      for (std::int64_t part = 0; part < parts_; ++part) {
        out[part] = factor * sum[at * parts_ + part];
      }
    }
  }

  const istft_settings settings_;
  const std::int64_t parts_;    ///< floats of a result
  const std::int64_t waiting_;  ///< floats of a channel in the state
  const std::size_t row_space_;
  const std::unique_ptr<operation> transform_;  ///< of one row
};

}  // namespace

std::unique_ptr<operation> make_stft_host(const operation_request& request) {
  stft_settings settings = parse_stft(request.settings, request.inputs[0]);
  const std::array row{tensor_spec{.type = settings.rows.type, .shape = {settings.window.length}}};
  std::unique_ptr<operation> transform = make_fft_host({.settings = parameters{}, .inputs = row});
  return std::make_unique<stft_host>(std::move(settings), std::move(transform));
}

std::unique_ptr<operation> make_istft_host(const operation_request& request) {
  istft_settings settings = parse_istft(request.settings, request.inputs[0]);
  const std::array row{tensor_spec{.type = element_type::cf32, .shape = {settings.input.shape.back()}}};
  std::unique_ptr<operation> transform = make_ifft_host({.settings = inverse_of(settings), .inputs = row});
  return std::make_unique<istft_host>(std::move(settings), std::move(transform));
}

}  // namespace penstock
