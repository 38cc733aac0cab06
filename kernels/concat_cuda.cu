#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/concat.hpp"
#include "kernels/launch.cuh"
#include "kernels/pack.cuh"

namespace penstock {
namespace {

/// Copies the chunks of one input to the runs of the output.
template <class Word>
__global__ void __launch_bounds__(block_threads)
    place_chunks(const Word* __restrict__ input, Word* __restrict__ output, std::int64_t words, std::int64_t pitch,
                 std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    const std::int64_t run = at / words;
    output[run * pitch + (at - run * words)] = input[at];
  }
}

/// Bytes of the widest machine word that divides every chunk, so that chunks are aligned to it.
std::size_t widest_word(const concat_settings& settings) noexcept {
  std::size_t word = 16;
  for (const std::size_t chunk : settings.chunks) {
    word = std::gcd(word, chunk);
  }
  return word;
}

class concat_cuda final : public operation {
 public:
  explicit concat_cuda(concat_settings settings)
      : settings_{std::move(settings)}, word_{widest_word(settings_)}, multiprocessors_{multiprocessor_count()} {}

  // Narrower chunks of several inputs would share a transfer over the link.
  [[nodiscard]] bool single_pass() const noexcept override {
    constexpr std::size_t narrowest = 32;
    return *std::min_element(settings_.chunks.begin(), settings_.chunks.end()) >= narrowest;
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    switch (word_) {
      case 16:
        return place<16>(stream, arguments);
      case 8:
        return place<8>(stream, arguments);
      case 4:
        return place<4>(stream, arguments);
      case 2:
        return place<2>(stream, arguments);
      default:
        return place<1>(stream, arguments);
    }
  }

 private:
  template <std::size_t Bytes>
  fault place(void* stream, const operation_arguments& arguments) noexcept {
    using word = typename machine_word<Bytes>::type;
    const std::int64_t runs = settings_.runs(arguments.extent);
    if (runs <= 0) {
      return {};
    }
    auto* output = static_cast<word*>(arguments.output);
    for (std::size_t input = 0; input < settings_.chunks.size(); ++input) {
      const auto words = static_cast<std::int64_t>(settings_.chunks[input] / Bytes);
      const std::int64_t count = runs * words;
      if (const fault failed =
              launch(stream, grid_of(divide_up(count, block_threads), most_blocks(multiprocessors_)),
                     dim3(block_threads), &place_chunks<word>, static_cast<const word*>(arguments.inputs[input]),
                     output, words, static_cast<std::int64_t>(settings_.pitch / Bytes), count)) {
        return failed;
      }
      output += words;
    }
    return {};
  }

  const concat_settings settings_;
  const std::size_t word_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_concat_cuda(const operation_request& request) {
  return std::make_unique<concat_cuda>(parse_concat(request.settings, request.inputs));
}

}  // namespace penstock
