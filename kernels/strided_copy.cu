#include "kernels/launch.cuh"
#include "kernels/strided_copy.hpp"

namespace penstock {
namespace {

template <class Element>
__global__ void __launch_bounds__(block_threads)
    copy_elements(const __grid_constant__ strided_copy copy, std::int64_t elements) {
  auto* const to = reinterpret_cast<Element*>(copy.to);
  const auto* const from = reinterpret_cast<const Element*>(copy.from);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < elements;
       at += stride) {
    std::int64_t left = at;
    std::int64_t target = 0;
    std::int64_t source = 0;
    for (auto at_axis = static_cast<int>(copy.extents); at_axis-- > 0;) {
      const strided_copy::extent& axis = copy.axis[at_axis];
      const std::int64_t next = left / axis.size;
      const std::int64_t index = left - next * axis.size;
      target += index * axis.to_stride;
      source += index * axis.from_stride;
      left = next;
    }
    to[target] = from == nullptr ? static_cast<Element>(copy.value) : from[source];
  }
}

// Without extents of 1, and with neighbours joined that lie together in both tensors.
strided_copy joined(const strided_copy& copy) noexcept {
  strided_copy made = copy;
  made.extents = 0;
  for (std::size_t at = 0; at < copy.extents; ++at) {
    const strided_copy::extent& axis = copy.axis[at];
    if (axis.size == 1) {
      continue;
    }
    if (made.extents != 0) {
      strided_copy::extent& last = made.axis[made.extents - 1];
      if (last.to_stride == axis.size * axis.to_stride && last.from_stride == axis.size * axis.from_stride) {
        last = {last.size * axis.size, axis.to_stride, axis.from_stride};
        continue;
      }
    }
    made.axis[made.extents++] = axis;
  }
  return made;
}

template <class Element>
cudaError_t launch_copy(cudaStream_t stream, const strided_copy& copy, std::int64_t elements) noexcept {
  constexpr std::int64_t most_blocks = 4096;
  copy_elements<Element>
      <<<grid_of(divide_up(elements, block_threads), most_blocks), threads_for(elements), 0, stream>>>(copy, elements);
  return cudaGetLastError();
}

}  // namespace

fault copy_strided(cudaStream_t stream, strided_copy copy) noexcept {
  copy = joined(copy);
  std::int64_t elements = 1;
  for (std::size_t axis = 0; axis < copy.extents; ++axis) {
    elements *= copy.axis[axis].size;
  }
  if (elements == 0) {
    return {};
  }
  switch (copy.element) {
    case 1:
      return cuda_fault(launch_copy<std::uint8_t>(stream, copy, elements));
    case 2:
      return cuda_fault(launch_copy<std::uint16_t>(stream, copy, elements));
    case 4:
      return cuda_fault(launch_copy<std::uint32_t>(stream, copy, elements));
    default:
      return cuda_fault(launch_copy<std::uint64_t>(stream, copy, elements));
  }
}

}  // namespace penstock
