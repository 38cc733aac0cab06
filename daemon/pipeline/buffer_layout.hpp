#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace penstock {

/// Offsets of device buffers are multiples of this.
inline constexpr std::size_t buffer_alignment = 256;

/// `bytes` rounded up to a multiple of buffer_alignment. Throws std::length_error when that does not fit a size_t.
[[nodiscard]] std::size_t aligned_bytes(std::size_t bytes);

/// Which buffers may not share memory: those whose contents can matter at the same time.
class buffer_conflicts {
 public:
  explicit buffer_conflicts(std::size_t buffers) : buffers_(buffers), pairs_(buffers * buffers, false) {}

  void add(std::size_t left, std::size_t right) {
    pairs_[left * buffers_ + right] = true;
    pairs_[right * buffers_ + left] = true;
  }
  [[nodiscard]] bool between(std::size_t left, std::size_t right) const { return pairs_[left * buffers_ + right]; }

 private:
  std::size_t buffers_;
  std::vector<bool> pairs_;
};

struct buffer_placement {
  std::vector<std::size_t> offsets;  ///< one for each buffer, in its order
  std::size_t bytes = 0;             ///< a multiple of buffer_alignment
};

/// Places all buffers in one piece of device memory. Two in conflict never overlap; others may. The first buffer lies
/// at offset 0; so does one of no bytes. Pure: the same request gives the same result. Throws std::length_error when
/// the sum does not fit a size_t.
///
/// The largest are placed first, each at the lowest offset that is free of what conflicts with it; then orders in which
/// two buffers change places are tried, as long as that saves memory.
[[nodiscard]] buffer_placement place_buffers(std::span<const std::size_t> bytes, const buffer_conflicts& conflicts);

}  // namespace penstock
