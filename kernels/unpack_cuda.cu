#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/elementwise.cuh"
#include "kernels/unpack.hpp"

namespace penstock {
namespace {

/// Four numbers of 24 bits, which lie in three words; the last `count % 4` one by one.
__global__ void __launch_bounds__(block_threads) widen(const std::uint8_t* __restrict__ in, std::int64_t count,
                                                       bool big, bool is_signed, std::int32_t* __restrict__ out) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  const std::int64_t groups = count / 4;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(in);
  // Which bytes of two words are the upper three of a number times 256, its lowest byte first.
  const unsigned orders[] = {big ? 0x0120U : 0x2100U, big ? 0x3450U : 0x5430U, big ? 0x2340U : 0x4320U,
                             big ? 0x1230U : 0x3210U};
  const std::int32_t kept = is_signed ? ~0 : 0x00FFFFFF;
#pragma unroll 2
  for (std::int64_t group = first; group < groups; group += stride) {
    const std::uint32_t low = words[3 * group];
    const std::uint32_t middle = words[3 * group + 1];
    const std::uint32_t high = words[3 * group + 2];
    const std::uint32_t raised[] = {__byte_perm(low, middle, orders[0]), __byte_perm(low, middle, orders[1]),
                                    __byte_perm(middle, high, orders[2]), __byte_perm(high, high, orders[3])};
    pack<std::int32_t, 4> numbers;
#pragma unroll
    for (int each = 0; each < 4; ++each) {
      numbers.at[each] = static_cast<std::int32_t>(raised[each]) >> 8 & kept;
    }
    store_pack<4>(out + 4 * group, numbers);
  }
  if (const std::int64_t last = 4 * groups + first; last < count) {
    const std::uint8_t* const from = in + 3 * last;
    out[last] = number_of(from[big ? 2 : 0], from[1], from[big ? 0 : 2], is_signed);
  }
}

/// A number as the machine has it: its bytes are turned round where the highest comes first.
struct machine_order {
  bool big;

  __device__ unsigned short operator()(unsigned short number, int /*component*/) const {
    return big ? static_cast<unsigned short>(__byte_perm(number, 0, 0x4401U)) : number;
  }
  __device__ unsigned operator()(unsigned number, int /*component*/) const {
    return big ? __byte_perm(number, 0, 0x0123U) : number;
  }
  __device__ uint2 operator()(uint2 number, int component) const {
    return big ? make_uint2((*this)(number.y, component), (*this)(number.x, component)) : number;
  }
};

class unpack_cuda final : public operation {
 public:
  explicit unpack_cuda(unpack_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t count = settings_.numbers(arguments.extent);
    if (count <= 0) {
      return {};
    }
    switch (settings_.bytes) {
      case 2:
        return turn<unsigned short>(stream, arguments, count);
      case 4:
        return turn<unsigned>(stream, arguments, count);
      case 8:
        return turn<uint2>(stream, arguments, count);
      default:
        return launch(stream, grid_of(divide_up(divide_up(count, 4), block_threads), most_blocks(multiprocessors_)),
                      dim3(block_threads), &widen, static_cast<const std::uint8_t*>(arguments.inputs[0]), count,
                      settings_.big, settings_.is_signed, static_cast<std::int32_t*>(arguments.output));
    }
  }

 private:
  template <class Word>
  fault turn(void* stream, const operation_arguments& arguments, std::int64_t count) const noexcept {
    return enqueue_map<16 / sizeof(Word)>(stream, multiprocessors_, static_cast<const Word*>(arguments.inputs[0]),
                                          static_cast<Word*>(arguments.output), count, machine_order{settings_.big});
  }

  const unpack_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_unpack_cuda(const operation_request& request) {
  return std::make_unique<unpack_cuda>(parse_unpack(request.settings, request.inputs[0]));
}

}  // namespace penstock
