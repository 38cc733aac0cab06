#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "kernels/bch.hpp"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

/// A thread corrects a word.
template <class Number>
__global__ void __launch_bounds__(block_threads)
    correct_words(const Number* __restrict__ in, const std::uint64_t* __restrict__ patterns, cyclic_code code,
                  std::int64_t words, Number* __restrict__ out) {
  const std::int64_t bits = code.row();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t word = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; word < words;
       word += stride) {
    correct_word(code, patterns, in + word * bits, out + word * (bits + 1));
  }
}

template <class Number>
class bch_cuda final : public operation {
 public:
  explicit bch_cuda(bch_settings settings)
      : settings_{std::move(settings)},
        patterns_{std::span<const std::uint64_t>{settings_.patterns}},
        most_blocks_{most_blocks(multiprocessor_count())} {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t words = settings_.rows.count(arguments.extent) * settings_.words;
    if (words <= 0) {
      return {};
    }
    return launch(stream, grid_of(divide_up(words, block_threads), most_blocks_), dim3(block_threads),
                  &correct_words<Number>, static_cast<const Number*>(arguments.inputs[0]), patterns_.data(),
                  settings_.code, words, static_cast<Number*>(arguments.output));
  }

 private:
  const bch_settings settings_;
  const device_array<std::uint64_t> patterns_;
  const std::int64_t most_blocks_;
};

}  // namespace

std::unique_ptr<operation> make_bch_cuda(const operation_request& request) {
  bch_settings settings = parse_bch(request.settings, request.inputs[0]);
  if (request.inputs[0].type == element_type::f64) {
    return std::make_unique<bch_cuda<double>>(std::move(settings));
  }
  return std::make_unique<bch_cuda<float>>(std::move(settings));
}

}  // namespace penstock
