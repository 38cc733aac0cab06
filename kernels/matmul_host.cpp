#include "kernels/matmul.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "kernels/function_attributes.hpp"
#include "kernels/half.hpp"
#include "kernels/openblas.hpp"

namespace penstock {
namespace {

using activation_kind = matmul_settings::activation_kind;

// The loops below give an element the same bits wherever it stands: no function of the library is called in them, and
// no sum is taken in lanes.

/// e^x within 2 units in the last place; of x from -87 to 88, and of what is beyond as of these.
[[gnu::always_inline]] inline float exponential(float x) noexcept {
  const float bounded = x > 88.0F ? 88.0F : x > -87.0F ? x : -87.0F;
  constexpr float magic = 12582912.0F;  // 1.5 · 2^23: added, the last place is 1
  const float rounded = bounded * 1.44269504F + magic;
  const float twos = rounded - magic;
  const float rest = (bounded - twos * 0.693359375F) - twos * -2.12194440e-4F;
  float sum = 1.9875691500e-4F;
  sum = sum * rest + 1.3981999507e-3F;
  sum = sum * rest + 8.3334519073e-3F;
  sum = sum * rest + 4.1665795894e-2F;
  sum = sum * rest + 1.6666665459e-1F;
  sum = sum * rest + 5.0000001201e-1F;
  const float power = sum * rest * rest + rest + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(rounded) + 127U) << 23U;
  return power * std::bit_cast<float>(exponent);
}

/// y / 2 · (1 + tanh(u)) = y / (1 + e^(-2u))
[[gnu::always_inline]] inline float gelu(float y) noexcept {
  constexpr float twice_root = 1.5957691216057308F;  // 2 · √(2/π)
  const float twice_u = twice_root * (y + 0.044715F * y * y * y);
  return y / (1.0F + exponential(-twice_u));
}

template <activation_kind Kind>
[[gnu::always_inline]] inline float activate(float y) noexcept {
  if constexpr (Kind == activation_kind::relu) {
    return y < 0.0F ? 0.0F : y;
  } else if constexpr (Kind == activation_kind::gelu) {
    return gelu(y);
  } else {
    return y;
  }
}

/// out[r, n] = activation(in[r, n] + bias[n]); `out` may be `in`.
template <activation_kind Kind, class Out>
PENSTOCK_VECTOR_CLONES void finish(const float* in, const float* __restrict bias, Out* out, std::size_t rows,
                                   std::size_t columns) {
  for (std::size_t row = 0; row < rows; ++row) {
#pragma omp simd
    for (std::size_t n = 0; n < columns; ++n) {
      out[row * columns + n] = stored<Out>(activate<Kind>(in[row * columns + n] + bias[n]));
    }
  }
}

template <class Out>
void finish(activation_kind activation, const float* in, const float* bias, void* out, std::size_t rows,
            std::size_t columns) {
  auto* const typed = static_cast<Out*>(out);
  switch (activation) {
    case activation_kind::relu:
      return finish<activation_kind::relu>(in, bias, typed, rows, columns);
    case activation_kind::gelu:
      return finish<activation_kind::gelu>(in, bias, typed, rows, columns);
    default:
      return finish<activation_kind::none>(in, bias, typed, rows, columns);
  }
}

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// x · W by OpenBLAS.
class host_product {
 public:
  explicit host_product(const matmul_settings& settings)
      : library_(openblas_library::load()), inner_(settings.inner), columns_(settings.columns) {
    weights_.resize(static_cast<std::size_t>(inner_ * columns_));
    read_numbers(*settings.weights, "weights", settings.factor_type(), 0, weights_);
    if (settings.factor_type() != element_type::f32) {
      std::vector<float> rounded(weights_.size());
      round_factors(settings.factor_type(), element_type::f32, weights_.data(), rounded.data(), rounded.size());
      weights_ = std::move(rounded);
    }
  }

  void run(const float* x, float* y, std::int64_t rows) const noexcept {
    // Of few rows, sgemm spends its time on bringing the weights in order.
    if (rows <= most_alone) {
      for (std::int64_t row = 0; row < rows; ++row) {
        library_->sgemv(openblas_library::row_major, openblas_library::transposed, static_cast<int>(inner_),
                        static_cast<int>(columns_), 1.0F, weights_.data(), static_cast<int>(columns_), x + row * inner_,
                        1, 0.0F, y + row * columns_, 1);
      }
      return;
    }
    for (std::int64_t row = 0; row < rows; row += openblas_library::max_extent) {
      const std::int64_t count = std::min(rows - row, openblas_library::max_extent);
      library_->sgemm(openblas_library::row_major, openblas_library::plain, openblas_library::plain,
                      static_cast<int>(count), static_cast<int>(columns_), static_cast<int>(inner_), 1.0F,
                      x + row * inner_, static_cast<int>(inner_), weights_.data(), static_cast<int>(columns_), 0.0F,
                      y + row * columns_, static_cast<int>(columns_));
    }
  }

  static constexpr std::int64_t most_alone = 3;

 private:
  std::shared_ptr<const openblas_library> library_;
  std::int64_t inner_;
  std::int64_t columns_;
  std::vector<float> weights_;
};

/// How OpenBLAS sums a row depends on the number of rows and on the row's place among them: it takes them in groups
/// (of 12 on a Haswell), and few or the last ones otherwise. But a product of so many rows is always computed the same
/// way. So rows go in blocks of a few sizes in which, as is found out once with rows that are all the same, every place
/// gives the same bits, and each size those of the others. The last block is filled up with zeros.
class repeatable_blocks {
 public:
  repeatable_blocks(const host_product& product, const matmul_settings& settings, std::int64_t max_rows) {
    if (max_rows <= host_product::most_alone) {
      sizes_ = {1};
      return;
    }
    trial rows(settings);
    for (const std::int64_t size : candidates(max_rows)) {
      if (rows.repeat(product, size)) {
        sizes_.push_back(size);
      }
    }
  }

  /// Rows of the largest block that the next of so many rows go in; if it holds more, zeros fill it up.
  [[nodiscard]] std::int64_t next(std::int64_t rows) const noexcept {
    const auto fits = std::find_if(sizes_.begin(), sizes_.end(), [rows](std::int64_t size) { return size <= rows; });
    return fits == sizes_.end() ? sizes_.back() : *fits;
  }
  /// Rows that may be missing in a block, at most.
  [[nodiscard]] std::int64_t smallest() const noexcept { return sizes_.back(); }

 private:
  /// Random rows, and the bits that blocks give for them. Each column is compared in all of them, since the last
  /// columns may be summed in another order than the others. Numbers of many sizes, so that also a sum of factors in
  /// bf16 is rounded at most steps, and another order gives other bits.
  class trial {
   public:
    explicit trial(const matmul_settings& settings)
        : inner_(static_cast<std::size_t>(settings.inner)),
          columns_(static_cast<std::size_t>(settings.columns)),
          x_(rows * inner_) {
      std::minstd_rand random(1);
      std::uniform_real_distribution<float> between(-1.0F, 1.0F);
      std::vector<float> drawn(x_.size());
      std::uniform_int_distribution<int> exponent(-13, 7);
      std::generate(drawn.begin(), drawn.end(), [&] { return std::ldexp(between(random), exponent(random)); });
      round_factors(settings.factor_type(), element_type::f32, drawn.data(), x_.data(), x_.size());
    }

    /// Whether every place of a block of that size gives these rows the same bits, those of the sizes before.
    [[nodiscard]] bool repeat(const host_product& product, std::int64_t size) {
      const auto count = static_cast<std::size_t>(size);
      std::vector<float> x(count * inner_);
      std::vector<float> y(count * columns_);
      std::vector<std::vector<float>> seen = seen_;
      // Every place gets at least 3 of the rows, one of few places all of them.
      const std::size_t rounds = std::clamp<std::size_t>(4 * rows / count, 3, rows);
      for (std::size_t round = 0; round < rounds; ++round) {
        const auto row_at = [round](std::size_t place) { return (place + round) % rows; };
        for (std::size_t place = 0; place < count; ++place) {
          std::copy_n(x_.data() + row_at(place) * inner_, inner_, x.data() + place * inner_);
        }
        product.run(x.data(), y.data(), size);
        for (std::size_t place = 0; place < count; ++place) {
          std::vector<float>& expected = seen[row_at(place)];
          const float* const given = y.data() + place * columns_;
          if (expected.empty()) {
            expected.assign(given, given + columns_);
          } else if (std::memcmp(given, expected.data(), columns_ * sizeof(float)) != 0) {
            return false;
          }
        }
      }
      seen_ = std::move(seen);
      return true;
    }

   private:
    static constexpr std::size_t rows = 24;

    std::size_t inner_;
    std::size_t columns_;
    std::vector<float> x_;
    std::vector<std::vector<float>> seen_ = std::vector<std::vector<float>>(rows);  ///< empty: not yet
  };

  /// From the largest down, so that the largest that works decides.
  [[nodiscard]] static std::vector<std::int64_t> candidates(std::int64_t max_rows) {
    constexpr std::array<std::int64_t, 14> all{384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 4, 1};
    std::vector<std::int64_t> made;
    for (const std::int64_t each : all) {
      if (each <= max_rows) {
        made.push_back(each);
      }
    }
    return made;
  }

  std::vector<std::int64_t> sizes_;  ///< the largest first; 1 alone if nothing else repeats
};

class matmul_host final : public operation {
 public:
  matmul_host(matmul_settings settings, std::int64_t max_frames)
      : settings_(std::move(settings)), product_(settings_), bias_(static_cast<std::size_t>(settings_.columns)) {
    const std::int64_t rows = settings_.max_rows(max_frames);
    if (settings_.bias != nullptr) {
      read_numbers(*settings_.bias, "bias", element_type::f32, 0, bias_);
    }
    std::int64_t spare = 0;
    if (settings_.repeatable) {
      blocks_ = std::make_unique<repeatable_blocks>(product_, settings_, rows);
      spare = blocks_->smallest();
    }
    const auto bytes = [](std::int64_t count, std::int64_t length) {
      return aligned(static_cast<std::size_t>(count * length) * sizeof(float));
    };
    y_offset_ = converts_input() ? bytes(rows, settings_.inner) : 0;
    spare_x_offset_ = y_offset_ + (converts_output() ? bytes(rows, settings_.columns) : 0);
    spare_y_offset_ = spare_x_offset_ + bytes(spare, settings_.inner);
    scratch_bytes_ = spare_y_offset_ + bytes(spare, settings_.columns);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    if (rows <= 0) {
      return {};
    }
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const auto* x = static_cast<const float*>(arguments.inputs[0]);
    if (converts_input()) {
      auto* const rounded = reinterpret_cast<float*>(scratch);
      round_factors(settings_.factor_type(), settings_.input.type, arguments.inputs[0], rounded,
                    static_cast<std::size_t>(rows * settings_.inner));
      x = rounded;
    }
    auto* const y =
        converts_output() ? reinterpret_cast<float*>(scratch + y_offset_) : static_cast<float*>(arguments.output);
    if (blocks_ == nullptr) {
      product_.run(x, y, rows);
    } else {
      run_blocks(x, y, rows, scratch);
    }
    const auto finish_into = settings_.output.type == element_type::f16    ? finish<half_bits>
                             : settings_.output.type == element_type::bf16 ? finish<brain_bits>
                                                                           : finish<float>;
    if (converts_output() || settings_.bias != nullptr || settings_.activation != activation_kind::none) {
      finish_into(settings_.activation, y, bias_.data(), arguments.output, static_cast<std::size_t>(rows),
                  static_cast<std::size_t>(settings_.columns));
    }
    return {};
  }

 private:
  [[nodiscard]] bool converts_input() const noexcept {
    return settings_.input.type != element_type::f32 || settings_.factor_type() != element_type::f32;
  }
  [[nodiscard]] bool converts_output() const noexcept { return settings_.output.type != element_type::f32; }

  void run_blocks(const float* x, float* y, std::int64_t rows, std::byte* scratch) const noexcept {
    for (std::int64_t row = 0; row < rows;) {
      const std::int64_t size = blocks_->next(rows - row);
      const float* const from = x + row * settings_.inner;
      float* const to = y + row * settings_.columns;
      if (size <= rows - row) {
        product_.run(from, to, size);
      } else {
        auto* const spare_x = reinterpret_cast<float*>(scratch + spare_x_offset_);
        auto* const spare_y = reinterpret_cast<float*>(scratch + spare_y_offset_);
        const std::int64_t left = (rows - row) * settings_.inner;
        std::copy_n(from, left, spare_x);
        std::fill(spare_x + left, spare_x + size * settings_.inner, 0.0F);
        product_.run(spare_x, spare_y, size);
        std::copy_n(spare_y, (rows - row) * settings_.columns, to);
      }
      row += size;
    }
  }

  const matmul_settings settings_;
  const host_product product_;
  std::vector<float> bias_;  ///< zeros where there is none
  std::unique_ptr<const repeatable_blocks> blocks_;
  std::size_t y_offset_ = 0;
  std::size_t spare_x_offset_ = 0;
  std::size_t spare_y_offset_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<operation> make_matmul_host(const operation_request& request) {
  matmul_settings settings = parse_matmul(request.settings, request.inputs[0]);
  if (settings.engine == matmul_settings::engine_kind::xt) {
    throw parameter_error("engine",
                          "\"xt\" is cuBLAS-Xt, which needs a GPU: leave it out on the host backend, which backend = "
                          "\"auto\" takes on a machine without one (--backend cuda checks for one with it)");
  }
  return std::make_unique<matmul_host>(std::move(settings), request.max_frames);
}

}  // namespace penstock
