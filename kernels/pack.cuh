#pragma once

#include <cstddef>
#include <cstring>

#include <cuda_runtime.h>

namespace penstock {

/// `Width` elements, which a thread loads or stores in one access of up to 16 bytes.
template <class T, int Width>
struct pack {
  T at[Width];
};

/// The machine word of the size of a pack.
template <std::size_t Bytes>
struct machine_word;
template <>
struct machine_word<1> {
  using type = unsigned char;
};
template <>
struct machine_word<2> {
  using type = unsigned short;
};
template <>
struct machine_word<4> {
  using type = unsigned int;
};
template <>
struct machine_word<8> {
  using type = uint2;
};
template <>
struct machine_word<16> {
  using type = uint4;
};

/// `source` is aligned to the size of the pack and is not written while the kernel runs.
template <int Width, class T>
[[nodiscard]] __device__ __forceinline__ pack<T, Width> load_pack(const T* source) {
  using word = typename machine_word<sizeof(pack<T, Width>)>::type;
  const word raw = __ldg(reinterpret_cast<const word*>(source));
  pack<T, Width> result;
  memcpy(&result, &raw, sizeof(result));
  return result;
}

/// `destination` is aligned to the size of the pack.
template <int Width, class T>
__device__ __forceinline__ void store_pack(T* destination, const pack<T, Width>& values) {
  using word = typename machine_word<sizeof(pack<T, Width>)>::type;
  word raw;
  memcpy(&raw, &values, sizeof(raw));
  *reinterpret_cast<word*>(destination) = raw;
}

}  // namespace penstock
