#include "daemon/pipeline/buffer_layout.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace penstock {
namespace {

/// Orders that are tried before the best of them is taken; enough for small pipelines, a few ms for large ones.
constexpr std::size_t max_trials = 2000;

struct extent {
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::size_t end_of(std::size_t offset, std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - offset) {
    throw std::length_error("the buffers of a batch do not fit the address space");
  }
  return offset + bytes;
}

/// The order in which buffers are placed: the first one, then the largest first.
std::vector<std::size_t> placing_order(std::span<const std::size_t> bytes) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (order.size() > 1) {
    std::stable_sort(order.begin() + 1, order.end(),
                     [&](std::size_t left, std::size_t right) { return bytes[left] > bytes[right]; });
  }
  return order;
}

/// The lowest offset at which `bytes` fit beside `taken`.
std::size_t lowest_gap(std::vector<extent> taken, std::size_t bytes) {
  std::sort(taken.begin(), taken.end(),
            [](const extent& left, const extent& right) { return left.begin < right.begin; });
  std::size_t offset = 0;
  for (const extent& other : taken) {
    if (other.begin >= end_of(offset, bytes)) {
      break;
    }
    offset = std::max(offset, other.end);
  }
  return offset;
}

/// A lower bound: the largest sum of a buffer and one that conflicts with it.
std::size_t least_bytes(std::span<const std::size_t> bytes, const buffer_conflicts& conflicts) {
  std::size_t least = 0;
  for (std::size_t left = 0; left < bytes.size(); ++left) {
    least = std::max(least, aligned_bytes(bytes[left]));
    for (std::size_t right = 0; right < left; ++right) {
      if (conflicts.between(left, right)) {
        least = std::max(least, end_of(aligned_bytes(bytes[left]), aligned_bytes(bytes[right])));
      }
    }
  }
  return least;
}

/// Places the buffers in that order, each at the lowest offset that is free of what conflicts with it.
buffer_placement place(std::span<const std::size_t> wanted, const buffer_conflicts& conflicts,
                       std::span<const std::size_t> order) {
  buffer_placement result;
  result.offsets.assign(wanted.size(), 0);
  std::vector<std::size_t> placed;
  for (const std::size_t index : order) {
    const std::size_t bytes = aligned_bytes(wanted[index]);
    if (bytes == 0) {
      continue;
    }
    std::vector<extent> taken;
    for (const std::size_t other : placed) {
      if (conflicts.between(index, other)) {
        const std::size_t offset = result.offsets[other];
        taken.push_back({offset, offset + aligned_bytes(wanted[other])});
      }
    }
    const std::size_t offset = lowest_gap(std::move(taken), bytes);
    result.offsets[index] = offset;
    result.bytes = std::max(result.bytes, end_of(offset, bytes));
    placed.push_back(index);
  }
  return result;
}

}  // namespace

std::size_t aligned_bytes(std::size_t bytes) {
  return end_of(bytes, buffer_alignment - 1) / buffer_alignment * buffer_alignment;
}

buffer_placement place_buffers(std::span<const std::size_t> bytes, const buffer_conflicts& conflicts) {
  const std::size_t least = least_bytes(bytes, conflicts);
  std::vector<std::size_t> order = placing_order(bytes);
  buffer_placement best = place(bytes, conflicts, order);
  std::size_t trials = max_trials;
  for (bool better = true; better;) {
    better = false;
    for (std::size_t left = 1; left < order.size(); ++left) {
      for (std::size_t right = left + 1; right < order.size(); ++right) {
        if (best.bytes == least || trials == 0) {
          return best;
        }
        --trials;
        std::swap(order[left], order[right]);
        if (buffer_placement other = place(bytes, conflicts, order); other.bytes < best.bytes) {
          best = std::move(other);
          better = true;
        } else {
          std::swap(order[left], order[right]);
        }
      }
    }
  }
  return best;
}

}  // namespace penstock
