#include "kernels/convert.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/element_values.hpp"
#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// One channel of a run of samples: where its values lie, in values of the type.
struct sample_layout {
  std::size_t count = 0;
  std::size_t in_stride = 1;
  std::size_t out_stride = 1;
  bool widen = false;  ///< a zero follows each value: the imaginary part that a real one hasn't got
};

/// Only the unsigned types have an offset; the other divisors are powers of two, so that multiplying by the inverse
/// gives exactly the quotient.
template <class Sample>
[[gnu::always_inline]] inline float value_of(Sample sample) noexcept {
  if constexpr (std::is_same_v<Sample, std::uint8_t>) {
    return (static_cast<float>(sample) - 127.5F) / 127.5F;
  } else if constexpr (std::is_same_v<Sample, std::int8_t>) {
    return static_cast<float>(sample) * (1.0F / 128.0F);
  } else if constexpr (std::is_same_v<Sample, std::int16_t>) {
    return static_cast<float>(sample) * (1.0F / 32768.0F);
  } else if constexpr (std::is_same_v<Sample, std::int32_t>) {
    return static_cast<float>(sample) * (1.0F / 2147483648.0F);
  } else {
    return sample;
  }
}

template <class Sample>
[[gnu::always_inline]] inline void spread(const Sample* __restrict in, float* __restrict out, std::size_t count,
                                          std::size_t in_stride, std::size_t out_stride) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    out[i * out_stride] = value_of(in[i * in_stride]);
  }
}

template <class Sample>
[[gnu::always_inline]] inline void widen(const Sample* __restrict in, float* __restrict out, std::size_t count,
                                         std::size_t in_stride) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = value_of(in[i * in_stride]);
    out[2 * i + 1] = 0.0F;
  }
}

/// The strides that occur most are constants to the compiler, which then vectorises the loop.
template <class Sample>
[[gnu::always_inline]] inline void convert_run(const void* in, float* out, const sample_layout& layout) noexcept {
  const auto* const samples = static_cast<const Sample*>(in);
  if (layout.widen && layout.in_stride == 1) {
    widen(samples, out, layout.count, 1);
  } else if (layout.widen) {
    widen(samples, out, layout.count, layout.in_stride);
  } else if (layout.in_stride == 1 && layout.out_stride == 1) {
    spread(samples, out, layout.count, 1, 1);
  } else if (layout.in_stride == 2 && layout.out_stride == 1) {
    spread(samples, out, layout.count, 2, 1);
  } else {
    spread(samples, out, layout.count, layout.in_stride, layout.out_stride);
  }
}

PENSTOCK_VECTOR_CLONES void convert_u8(const void* in, float* out, const sample_layout& layout) {
  convert_run<std::uint8_t>(in, out, layout);
}
PENSTOCK_VECTOR_CLONES void convert_i8(const void* in, float* out, const sample_layout& layout) {
  convert_run<std::int8_t>(in, out, layout);
}
PENSTOCK_VECTOR_CLONES void convert_i16(const void* in, float* out, const sample_layout& layout) {
  convert_run<std::int16_t>(in, out, layout);
}
PENSTOCK_VECTOR_CLONES void convert_i32(const void* in, float* out, const sample_layout& layout) {
  convert_run<std::int32_t>(in, out, layout);
}
PENSTOCK_VECTOR_CLONES void convert_f32(const void* in, float* out, const sample_layout& layout) {
  convert_run<float>(in, out, layout);
}

using conversion = void (*)(const void*, float*, const sample_layout&);

/// Of digitizers' types alone (convert_settings::is_digitized).
conversion conversion_of(element_type part) noexcept {
  switch (part) {
    case element_type::u8:
      return convert_u8;
    case element_type::i8:
      return convert_i8;
    case element_type::i16:
      return convert_i16;
    case element_type::i32:
      return convert_i32;
    default:
      return convert_f32;
  }
}

/// Any type to any other, by numbers of 64 bits in blocks that stay in the cache.
class number_conversion {
 public:
  explicit number_conversion(const convert_settings& settings)
      : from_{part_type(settings.from)},
        to_{part_type(settings.to)},
        in_bytes_{size_of(from_)},
        out_bytes_{size_of(to_)},
        read_{reader_of(from_)},
        write_{writer_of(to_)},
        offset_{settings.offset},
        divisor_{settings.divisor} {}

  void run(const std::byte* in, std::byte* out, const sample_layout& layout) const noexcept {
    const std::size_t out_stride = layout.widen ? 2 : layout.out_stride;
    for (std::size_t first = 0; first < layout.count; first += block) {
      const std::size_t count = std::min(block, layout.count - first);
      run_block(in + first * layout.in_stride * in_bytes_, layout.in_stride, out + first * out_stride * out_bytes_,
                out_stride, count);
    }
    if (layout.widen) {
      for (std::size_t i = 0; i < layout.count; ++i) {
        std::memset(out + (2 * i + 1) * out_bytes_, 0, out_bytes_);
      }
    }
  }

 private:
  static constexpr std::size_t block = 512;

  void run_block(const std::byte* in, std::size_t in_stride, std::byte* out, std::size_t out_stride,
                 std::size_t count) const noexcept {
    std::array<std::int64_t, block> whole;
    std::array<double, block> real;
    void* const read = is_whole(from_) ? static_cast<void*>(whole.data()) : real.data();
    const void* const written = is_whole(to_) ? static_cast<const void*>(whole.data()) : real.data();
    read_(in, in_stride, count, read);
    if (is_whole(from_) && !is_whole(to_)) {
      if (divisor_ != 1.0) {
        scale_whole(whole.data(), real.data(), count, offset_, divisor_);
      } else {
        widen_whole(whole.data(), real.data(), count, to_ != element_type::f64);
      }
    } else if (to_ == element_type::boolean && !is_whole(from_)) {
      test_real(real.data(), whole.data(), count);
    } else if (!is_whole(from_) && is_whole(to_)) {
      round_real(real.data(), whole.data(), count, offset_, divisor_);
    }
    write_(written, out, out_stride, count);
  }

  const element_type from_;
  const element_type to_;
  const std::size_t in_bytes_;
  const std::size_t out_bytes_;
  const read_values read_;
  const write_values write_;
  const double offset_;
  const double divisor_;
};

class convert_host final : public operation {
 public:
  explicit convert_host(convert_settings settings)
      : settings_{std::move(settings)},
        convert_{settings_.is_digitized() ? conversion_of(part_type(settings_.from)) : nullptr},
        numbers_{settings_},
        in_parts_{is_complex(settings_.from) ? std::size_t{2} : std::size_t{1}},
        out_parts_{is_complex(settings_.to) ? std::size_t{2} : std::size_t{1}},
        in_bytes_{size_of(settings_.from) / in_parts_},
        out_bytes_{size_of(settings_.to) / out_parts_} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const auto* const in = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* const out = static_cast<std::byte*>(arguments.output);
    if (settings_.planar && settings_.channels > 1) {
      for (std::size_t frame = 0; frame < static_cast<std::size_t>(extent.frames); ++frame) {
        run_planar(in + frame * settings_.input.bytes(), out + frame * settings_.output.bytes());
      }
      return {};
    }
    const auto elements = static_cast<std::size_t>(extent.frames * settings_.input.elements(extent.leading));
    convert_values(in, out, {.count = elements * in_parts_, .widen = in_parts_ < out_parts_});
    return {};
  }

 private:
  void convert_values(const std::byte* in, std::byte* out, const sample_layout& layout) const noexcept {
    if (convert_ != nullptr) {
      convert_(in, static_cast<float*>(static_cast<void*>(out)), layout);
    } else {
      numbers_.run(in, out, layout);
    }
  }

  /// In blocks that stay in the cache while each channel is picked out of them.
  void run_planar(const std::byte* in, std::byte* out) const noexcept {
    const auto samples = static_cast<std::size_t>(settings_.samples);
    const auto channels = static_cast<std::size_t>(settings_.channels);
    constexpr std::size_t block_values = 4096;
    const std::size_t block = std::max<std::size_t>(16, block_values / channels);
    for (std::size_t first = 0; first < samples; first += block) {
      const sample_layout layout{.count = std::min(block, samples - first),
                                 .in_stride = channels * in_parts_,
                                 .out_stride = out_parts_,
                                 .widen = in_parts_ < out_parts_};
      for (std::size_t channel = 0; channel < channels; ++channel) {
        for (std::size_t part = 0; part < in_parts_; ++part) {
          convert_values(in + ((first * channels + channel) * in_parts_ + part) * in_bytes_,
                         out + ((channel * samples + first) * out_parts_ + part) * out_bytes_, layout);
        }
      }
    }
  }

  const convert_settings settings_;
  const conversion convert_;  ///< nullptr: by numbers_
  const number_conversion numbers_;
  const std::size_t in_parts_;
  const std::size_t out_parts_;
  const std::size_t in_bytes_;  ///< of a part
  const std::size_t out_bytes_;
};

}  // namespace

std::unique_ptr<operation> make_convert_host(const operation_request& request) {
  return std::make_unique<convert_host>(parse_convert(request.settings, request.inputs[0]));
}

}  // namespace penstock
