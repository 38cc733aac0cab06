#pragma once

#include <cstddef>
#include <cstring>

#include <cuda_runtime.h>

namespace penstock {

/// `Width` elements that one thread reads or writes in one access of up to 16 bytes.
template <class T, int Width>
struct pack {
  T at[Width];
};

/// The machine word that moves a pack of that many bytes.
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

/// `from` is aligned to the pack's size, and nothing writes there while the kernel runs.
template <int Width, class T>
[[nodiscard]] __device__ __forceinline__ pack<T, Width> load_pack(const T* from) {
  using word = typename machine_word<sizeof(pack<T, Width>)>::type;
  const word raw = __ldg(reinterpret_cast<const word*>(from));
  pack<T, Width> result;
  memcpy(&result, &raw, sizeof(result));
  return result;
}

/// `to` is aligned to the pack's size.
template <int Width, class T>
__device__ __forceinline__ void store_pack(T* to, const pack<T, Width>& what) {
  using word = typename machine_word<sizeof(pack<T, Width>)>::type;
  word raw;
  memcpy(&raw, &what, sizeof(raw));
  *reinterpret_cast<word*>(to) = raw;
}

}  // namespace penstock
