#include "daemon/pipeline/arena.hpp"

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

bool alive_together(const arena_request& left, const arena_request& right) {
  return left.first_step <= right.last_step && right.first_step <= left.last_step;
}

std::size_t end_of(std::size_t offset, std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - offset) {
    throw std::length_error("the buffers of a batch do not fit the address space");
  }
  return offset + bytes;
}

/// The order in which requests are placed: the first one, then the largest first.
std::vector<std::size_t> placing_order(std::span<const arena_request> requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (order.size() > 1) {
    std::stable_sort(order.begin() + 1, order.end(),
                     [&](std::size_t left, std::size_t right) { return requests[left].bytes > requests[right].bytes; });
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

/// What lives in the fullest step: no arena can be smaller.
std::size_t fullest_step(std::span<const arena_request> requests) {
  std::size_t fullest = 0;
  for (const arena_request& at : requests) {
    std::size_t alive = 0;
    for (const arena_request& other : requests) {
      if (other.first_step <= at.first_step && at.first_step <= other.last_step) {
        alive = end_of(alive, arena_aligned(other.bytes));
      }
    }
    fullest = std::max(fullest, alive);
  }
  return fullest;
}

/// Places the requests in that order, each at the lowest offset that is free for as long as it lives.
arena_placement place(std::span<const arena_request> requests, std::span<const std::size_t> order) {
  arena_placement result;
  result.offsets.assign(requests.size(), 0);
  std::vector<std::size_t> placed;
  for (const std::size_t index : order) {
    const std::size_t bytes = arena_aligned(requests[index].bytes);
    if (bytes == 0) {
      continue;
    }
    std::vector<extent> taken;
    for (const std::size_t other : placed) {
      if (alive_together(requests[index], requests[other])) {
        const std::size_t offset = result.offsets[other];
        taken.push_back({offset, offset + arena_aligned(requests[other].bytes)});
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

std::size_t arena_aligned(std::size_t bytes) {
  return end_of(bytes, arena_alignment - 1) / arena_alignment * arena_alignment;
}

arena_placement place_in_arena(std::span<const arena_request> requests) {
  const std::size_t least = fullest_step(requests);
  std::vector<std::size_t> order = placing_order(requests);
  arena_placement best = place(requests, order);
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
        if (arena_placement other = place(requests, order); other.bytes < best.bytes) {
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
