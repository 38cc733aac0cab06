#include "kernels/fir.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/fft_host.hpp"
#include "kernels/function_attributes.hpp"
#include "kernels/overlap_save.hpp"
#include "kernels/session.hpp"

namespace penstock {
namespace {

/// How "fft" cuts a frame's steps into blocks.
overlap_save_blocks plan_fir_blocks(const fir_settings& settings) {
  const std::int64_t steps = settings.input.shape.front();
  return plan_overlap_save(steps, settings.length(), steps + settings.length() - 1);
}

/// Strided elements of one or two floats.
struct spaced {
  std::int64_t count;
  std::int64_t from_stride;
  std::int64_t to_stride;
  std::int64_t parts;
};

void copy_spaced(const float* source, float* destination, const spaced& elements) noexcept {
  if (elements.from_stride == elements.parts && elements.to_stride == elements.parts) {
    std::copy_n(source, elements.count * elements.parts, destination);
    return;
  }
  for (std::int64_t part = 0; part < elements.parts; ++part) {
    for (std::int64_t at = 0; at < elements.count; ++at) {
      destination[at * elements.to_stride + part] = source[at * elements.from_stride + part];
    }
  }
}

/// Overlap-save (overlap_save.hpp), channel by channel, in blocks that begin K − 1 steps before the first of their
/// outputs. With D > 1 every D-th output of a block is kept.
class fir_fft_host final : public operation {
 public:
  explicit fir_fft_host(fir_settings settings)
      : settings_{std::move(settings)},
        complex_{is_complex(settings_.output.type)},
        blocks_{plan_fir_blocks(settings_)},
        correlation_{blocks_.length, settings_.length(), complex_},
        prepared_taps_{correlation_.template_space()} {
    aligned_floats samples(correlation_.sample_space());
    const auto last = settings_.taps.size() - 1;
    for (std::size_t k = 0; k <= last; ++k) {
      samples.data()[complex_ ? 2 * k : k] = settings_.taps[last - k];
      if (settings_.complex_taps()) {
        samples.data()[2 * k + 1] = -settings_.taps_imag[last - k];
      }
    }
    correlation_.set_template(samples.data(), prepared_taps_.data());
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (2 * correlation_.sample_space() + correlation_.scratch_space()) * sizeof(float);
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading) * in_parts(),
        .channels = settings_.channels * in_parts(),
        .length = settings_.kept,
    };
    auto* const samples = static_cast<float*>(arguments.scratch);
    const block_memory memory{samples, samples + correlation_.sample_space(),
                              samples + 2 * correlation_.sample_space()};
    const std::int64_t out_pitch = settings_.output.elements(settings_.rate().most(extent.leading)) * out_parts();
    auto* out = static_cast<float*>(arguments.output);
    for (std::int32_t index = 0; index < extent.frames; ++index, out += out_pitch) {
      for (std::int64_t channel = 0; channel < settings_.channels; ++channel) {
        filter_channel(history, index, channel, memory, out + channel * out_parts());
      }
    }
    keep_steps(history, extent.frames);
    return {};
  }

 private:
  /// Of one block.
  struct block_memory {
    float* samples;
    float* results;
    float* scratch;
  };

  [[nodiscard]] std::int64_t in_parts() const noexcept { return is_complex(settings_.input.type) ? 2 : 1; }
  [[nodiscard]] std::int64_t out_parts() const noexcept { return complex_ ? 2 : 1; }

  void filter_channel(const session_history<float>& history, std::int32_t index, std::int64_t channel,
                      const block_memory& memory, float* out) const noexcept {
    const session_frame& frame = history.session.frames[index];
    const std::int64_t every = settings_.decimation;
    const std::int64_t in_block = std::max<std::int64_t>(1, blocks_.step / every);
    std::int64_t step = first_kept_step(frame.position, every);
    for (std::int64_t done = 0; done < frame.produced; done += in_block, step += in_block * every) {
      const std::int64_t outputs = std::min(in_block, frame.produced - done);
      const std::int64_t results = every * (outputs - 1) + 1;
      load(history, index, channel, step - (settings_.length() - 1), results + settings_.length() - 1, memory.samples);
      correlation_.run(memory.samples, memory.scratch, prepared_taps_.data(), memory.results,
                       static_cast<std::size_t>(results), static_cast<std::size_t>(every));
      const std::int64_t out_stride = settings_.channels * out_parts();
      copy_spaced(memory.results, out + done * out_stride, {outputs, every * out_parts(), out_stride, out_parts()});
    }
  }

  /// One channel's `count` steps from `first` on, then zeros up to the block's length.
  void load(const session_history<float>& history, std::int32_t index, std::int64_t channel, std::int64_t first,
            std::int64_t count, float* samples) const noexcept {
    const std::int64_t given = in_parts() == out_parts() ? count : 0;  // others leave imaginary parts
    std::fill(samples + given * out_parts(), samples + blocks_.length * out_parts(), 0.0F);
    visit_runs(history, index, first, count, [&](const float* source, std::int64_t offset, std::int64_t steps) {
      float* const destination = samples + offset * out_parts();
      if (source == nullptr) {
        std::fill_n(destination, steps * out_parts(), 0.0F);
      } else {
        copy_spaced(source + channel * in_parts(), destination, {steps, history.channels, out_parts(), in_parts()});
      }
    });
  }

  const fir_settings settings_;
  const bool complex_;  ///< the transforms are of complex samples
  const overlap_save_blocks blocks_;
  const fft_correlation correlation_;
  aligned_floats prepared_taps_;
};

/// "auto" uses the transform if the direct sum takes more products than this for each operation of overlap_save_blocks.
/// Measured on one core: both take equally long at 3 with AVX-512 and at 2 with AVX2. The limit is higher because the
/// sum rounds less, and values that are not finite cost it nothing.
constexpr double products_an_operation = 6.0;

/// One product of the sum: a tap, and the offset of its values in the tile.
struct placed_tap {
  float value;
  std::int64_t offset;
};

/// Outputs that are summed side by side; each vector is kept in one or two registers.
using lanes = float __attribute__((vector_size(32)));
using lanes_anywhere = float __attribute__((vector_size(32), aligned(alignof(float)), may_alias));
constexpr std::size_t lane_count = sizeof(lanes) / sizeof(float);

/// The first `values` of the outputs of `Vectors` vectors.
template <std::size_t Vectors>
[[gnu::always_inline]] inline void filter_lanes(const float* tile, const std::vector<placed_tap>& taps, float* out,
                                                std::size_t values) noexcept {
  double total[Vectors * lane_count] = {};
  for (std::size_t first = 0; first < taps.size(); first += fir_partial) {
    const std::size_t end = std::min<std::size_t>(first + fir_partial, taps.size());
    lanes partial[Vectors] = {};
    for (std::size_t tap = first; tap < end; ++tap) {
      const float value = taps[tap].value;
      const auto* const source = reinterpret_cast<const lanes_anywhere*>(tile + taps[tap].offset);
#pragma GCC unroll 4
      for (std::size_t vector = 0; vector < Vectors; ++vector) {
        partial[vector] += value * source[vector];
      }
    }
    for (std::size_t lane = 0; lane < Vectors * lane_count; ++lane) {
      total[lane] += static_cast<double>(partial[lane / lane_count][lane % lane_count]);
    }
  }
  for (std::size_t lane = 0; lane < values; ++lane) {
    out[lane] = static_cast<float>(total[lane]);
  }
}

/// out[i] = sum of taps[k].value · tile[taps[k].offset + i] for each of `values` outputs. Reads up to lane_count − 1
/// values behind the tile, for lanes that it then drops.
PENSTOCK_VECTOR_CLONES void filter_tile(const float* tile, const std::vector<placed_tap>& taps, float* out,
                                        std::size_t values) {
  constexpr std::size_t wide = 4;
  std::size_t done = 0;
  for (; done + wide * lane_count <= values; done += wide * lane_count) {
    filter_lanes<wide>(tile + done, taps, out + done, wide * lane_count);
  }
  for (; done < values; done += lane_count) {
    filter_lanes<1>(tile + done, taps, out + done, std::min(lane_count, values - done));
  }
}

/// A frame is filtered tile by tile. A tile of T outputs holds the input steps t = 0 … D·(T − 1) + K − 1 that they
/// need, in phases: step t is row t / D of phase t mod D. The step that goes with output m and tap k is t = D·m + r,
/// with r = K − 1 − k, that is row m + r / D of phase r mod D; so for each tap the values of all outputs lie in one
/// row, the outputs' own order, whatever the decimation and the number of channels. Phases that no tap looks at are
/// left out.
///
/// With complex taps the tile holds z and, in a second part, j·z: y = sum re(h)·z + im(h)·(j·z), in which each product
/// is again one of real numbers.
class fir_host final : public operation {
 public:
  explicit fir_host(fir_settings settings)
      : settings_{std::move(settings)},
        in_width_{settings_.channels * (is_complex(settings_.input.type) ? 2 : 1)},
        width_{settings_.channels * (is_complex(settings_.output.type) ? 2 : 1)},
        phases_{std::min(settings_.decimation, settings_.length())},
        tile_{tile_outputs()},
        rows_{tile_ + (settings_.length() - 1) / settings_.decimation} {
    place_taps(settings_.taps, 0);
    if (settings_.complex_taps()) {
      place_taps(settings_.taps_imag, part_values());
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    const std::int64_t parts = settings_.complex_taps() ? 2 : 1;
    return (static_cast<std::size_t>(parts * part_values()) + lane_count) * sizeof(float);
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading) / settings_.channels * in_width_,
        .channels = in_width_,
        .length = settings_.kept,
    };
    const std::int64_t leading = settings_.rate().most(extent.leading);
    const std::int64_t out_pitch = settings_.output.elements(leading) / settings_.channels * width_;
    auto* const tile = static_cast<float*>(arguments.scratch);
    auto* out = static_cast<float*>(arguments.output);
    for (std::int32_t index = 0; index < extent.frames; ++index, out += out_pitch) {
      filter_frame(history, index, tile, out);
    }
    keep_steps(history, extent.frames);
    return {};
  }

 private:
  /// Enough to fill the L1 or L2 cache, and no fewer than the steps of history before a tile.
  [[nodiscard]] std::int64_t tile_outputs() const noexcept {
    const std::int64_t cached = 8192 / (phases_ * width_);
    const std::int64_t past = settings_.length() / settings_.decimation;
    return std::clamp<std::int64_t>(std::max(cached, past), 1, settings_.rate().most(settings_.input.shape.front()));
  }
  [[nodiscard]] std::int64_t part_values() const noexcept { return phases_ * rows_ * width_; }

  void place_taps(const std::vector<float>& values, std::int64_t part) {
    for (std::int64_t phase = 0; phase < phases_; ++phase) {
      for (std::int64_t r = phase; r < settings_.length(); r += settings_.decimation) {
        const std::int64_t offset = part + (phase * rows_ + r / settings_.decimation) * width_;
        taps_.push_back({values[static_cast<std::size_t>(settings_.length() - 1 - r)], offset});
      }
    }
  }

  void filter_frame(const session_history<float>& history, std::int32_t index, float* tile, float* out) noexcept {
    const session_frame& frame = history.session.frames[index];
    const std::int64_t first = first_kept_step(frame.position, settings_.decimation) - (settings_.length() - 1);
    for (std::int64_t done = 0; done < frame.produced; done += tile_) {
      const std::int64_t outputs = std::min<std::int64_t>(tile_, frame.produced - done);
      const std::int64_t steps = settings_.decimation * (outputs - 1) + settings_.length();
      visit_runs(
          history, index, first + settings_.decimation * done, steps,
          [&](const float* source, std::int64_t offset, std::int64_t count) { stage(source, offset, count, tile); });
      filter_tile(tile, taps_, out + done * width_, static_cast<std::size_t>(outputs * width_));
    }
  }

  /// Copies `count` steps, the first of which is step `offset` of the tile, to their rows.
  void stage(const float* source, std::int64_t offset, std::int64_t count, float* tile) const noexcept {
    const std::int64_t every = settings_.decimation;
    for (std::int64_t phase = 0; phase < phases_; ++phase) {
      const std::int64_t skipped = (phase - offset % every + every) % every;
      float* destination = tile + (phase * rows_ + (offset + skipped) / every) * width_;
      if (every == 1 && source != nullptr && width_ == in_width_ && !settings_.complex_taps()) {
        std::copy_n(source, count * width_, destination);
        continue;
      }
      for (std::int64_t step = skipped; step < count; step += every, destination += width_) {
        stage_step(source == nullptr ? nullptr : source + step * in_width_, destination);
      }
    }
  }

  void stage_step(const float* source, float* destination) const noexcept {
    if (!settings_.complex_taps()) {
      for (std::int64_t value = 0; value < width_; ++value) {
        destination[value] = source == nullptr ? 0.0F : source[value];
      }
      return;
    }
    float* const turned = destination + part_values();
    const bool complex_input = in_width_ == width_;
    for (std::int64_t channel = 0; channel < settings_.channels; ++channel) {
      const float re = source == nullptr ? 0.0F : source[complex_input ? 2 * channel : channel];
      const float im = source == nullptr || !complex_input ? 0.0F : source[2 * channel + 1];
      destination[2 * channel] = re;
      destination[2 * channel + 1] = im;
      turned[2 * channel] = -im;
      turned[2 * channel + 1] = re;
    }
  }

  const fir_settings settings_;
  const std::int64_t in_width_;  ///< floats of a step of the input
  const std::int64_t width_;     ///< floats of a step of the tile and of the output
  const std::int64_t phases_;
  const std::int64_t tile_;  ///< outputs of a tile, at most
  const std::int64_t rows_;  ///< of a phase
  std::vector<placed_tap> taps_;
};

/// Leaves out invalid samples. The state holds the samples that the filter goes on with, so a batch of valid ones goes
/// through the ordinary filter.
class fir_valid_host final : public operation {
 public:
  fir_valid_host(fir_settings settings, std::unique_ptr<operation> ordinary)
      : settings_{std::move(settings)}, ordinary_{std::move(ordinary)} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    const std::int64_t line = (settings_.kept + settings_.input.shape.front()) * in_parts();
    return std::max(ordinary_->scratch_bytes(), static_cast<std::size_t>(line) * sizeof(float));
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(arguments.extent.leading) * in_parts(),
        .channels = settings_.channels * in_parts(),
        .length = settings_.kept,
    };
    bool any = false;
    for (std::int32_t index = 0; index < arguments.extent.frames && !any; ++index) {
      any =
          any_invalid(history.input + index * history.pitch, arguments.session.frames[index].steps * history.channels);
    }
    if (!any) {
      return ordinary_->run(stream, arguments);
    }
    for (std::int32_t index = 0; index < arguments.extent.frames; ++index) {
      for (std::int64_t channel = 0; channel < settings_.channels && arguments.session.frames[index].previous < 0;
           ++channel) {
        filter_channel(arguments, history, index, channel);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] std::int64_t in_parts() const noexcept { return is_complex(settings_.input.type) ? 2 : 1; }
  [[nodiscard]] std::int64_t out_parts() const noexcept { return is_complex(settings_.output.type) ? 2 : 1; }

  /// Of the session whose first frame in this batch is given. The line has the samples that came, behind as many as the
  /// state keeps.
  void filter_channel(const operation_arguments& arguments, const session_history<float>& history, std::int32_t index,
                      std::int64_t channel) const noexcept {
    const std::int64_t kept = settings_.kept * in_parts();
    const std::int64_t out_pitch =
        settings_.output.elements(settings_.rate().most(arguments.extent.leading)) * out_parts();
    auto* const line = static_cast<float*>(arguments.scratch);
    float* next = line;
    visit_runs(history, index, -settings_.kept, settings_.kept,
               [&](const float* source, std::int64_t offset, std::int64_t steps) {
                 for (std::int64_t step = 0; step < steps; ++step) {
                   for (std::int64_t part = 0; part < in_parts(); ++part) {
                     line[(offset + step) * in_parts() + part] =
                         source == nullptr ? 0.0F : source[step * history.channels + channel * in_parts() + part];
                   }
                 }
               });
    const session_frame* frame = nullptr;
    for (; index >= 0; index = frame->next) {
      frame = &history.session.frames[index];
      const float* in = history.input + index * history.pitch + channel * in_parts();
      float* out = static_cast<float*>(arguments.output) + index * out_pitch + channel * out_parts();
      std::int64_t wanted = first_kept_step(frame->position, settings_.decimation);
      next = line + kept;
      for (std::int64_t step = 0; step < frame->steps; ++step, in += history.channels) {
        const bool valid = is_valid(in[0]) && is_valid(in[in_parts() - 1]);
        if (valid) {
          next = std::copy_n(in, in_parts(), next);
        } else if (settings_.on_nan == invalid_samples::reset) {
          next = std::fill_n(line, kept, 0.0F);
        }
        if (step == wanted) {
          write_sum(valid ? next : nullptr, out);
          out += settings_.channels * out_parts();
          wanted += settings_.decimation;
        }
      }
      if (next != line + kept) {
        std::copy(next - kept, next, line);
      }
    }
    float* const state = history.kept(*frame, -settings_.kept) + channel * in_parts();
    for (std::int64_t step = 0; step < settings_.kept; ++step) {
      std::copy_n(line + step * in_parts(), in_parts(), state + step * history.channels);
    }
  }

  /// The output behind the last sample before `end`; NaN without one.
  void write_sum(const float* end, float* out) const noexcept {
    if (end == nullptr) {
      std::fill_n(out, out_parts(), std::numeric_limits<float>::quiet_NaN());
      return;
    }
    const std::int64_t parts = in_parts();
    const bool complex_taps = settings_.complex_taps();
    double re = 0.0;
    double im = 0.0;
    for (std::int64_t k = 0; k < settings_.length(); ++k) {
      const float* const sample = end - (k + 1) * parts;
      const auto tap = static_cast<double>(settings_.taps[static_cast<std::size_t>(k)]);
      const auto turn = complex_taps ? static_cast<double>(settings_.taps_imag[static_cast<std::size_t>(k)]) : 0.0;
      const auto x = static_cast<double>(sample[0]);
      const double y = parts == 2 ? static_cast<double>(sample[1]) : 0.0;
      re += tap * x - turn * y;
      im += tap * y + turn * x;
    }
    out[0] = static_cast<float>(re);
    if (out_parts() == 2) {
      out[1] = static_cast<float>(im);
    }
  }

  const fir_settings settings_;
  const std::unique_ptr<operation> ordinary_;
};

bool sum_takes_longer(const fir_settings& settings) {
  const double parts = settings.complex_taps() ? 4.0 : is_complex(settings.input.type) ? 2.0 : 1.0;
  const double outputs = static_cast<double>(settings.rate().most(settings.input.shape.front()));
  const double products = outputs * parts * static_cast<double>(settings.length());
  const overlap_save_blocks blocks = plan_fir_blocks(settings);
  return settings.input.shape.front() >= settings.length() &&
         products > products_an_operation * (is_complex(settings.output.type) ? 2.0 : 1.0) * blocks.operations;
}

}  // namespace

std::unique_ptr<operation> make_fir_host(const operation_request& request) {
  const fir_settings settings = parse_fir(request.settings, request.inputs[0]);
  std::unique_ptr<operation> made;
  if (settings.method == sum_method::fft || (settings.method == sum_method::automatic && sum_takes_longer(settings))) {
    made = std::make_unique<fir_fft_host>(settings);
  } else {
    made = std::make_unique<fir_host>(settings);
  }
  if (settings.on_nan != invalid_samples::spread) {
    made = std::make_unique<fir_valid_host>(settings, std::move(made));
  }
  return made;
}

}  // namespace penstock
