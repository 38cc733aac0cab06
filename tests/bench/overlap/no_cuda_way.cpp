// Where there is no CUDA toolkit: the ways that need one do not exist.

#include "tests/bench/overlap/overlap_ways.hpp"

namespace penstock::bench {

std::unique_ptr<overlap_way> make_pageable_way(const overlap_buffers& /*with*/, const overlap_work& /*work*/) {
  return nullptr;
}

std::unique_ptr<overlap_way> make_pinned_way(const overlap_buffers& /*with*/, const overlap_work& /*work*/) {
  return nullptr;
}

std::unique_ptr<overlap_way> make_told_way(const overlap_buffers& /*with*/, const overlap_work& /*work*/,
                                           std::size_t /*chunks*/) {
  return nullptr;
}

std::unique_ptr<overlap_way> make_bare_way(const overlap_buffers& /*with*/, const overlap_work& /*work*/,
                                           std::size_t /*chunks*/) {
  return nullptr;
}

}  // namespace penstock::bench
