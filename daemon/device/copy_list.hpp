#pragma once

#include <cstddef>
#include <vector>

namespace penstock {

/// Pieces of memory and where each of them is to be copied, as three columns.
struct copy_list {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> bytes;

  void reserve(std::size_t pieces) {
    to.reserve(pieces);
    from.reserve(pieces);
    bytes.reserve(pieces);
  }
  void clear() noexcept {
    to.clear();
    from.clear();
    bytes.clear();
  }
  /// A piece of no bytes is left out.
  void add(void* target, const void* source, std::size_t count) {
    if (count != 0) {
      to.push_back(target);
      from.push_back(source);
      bytes.push_back(count);
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return bytes.size(); }
};

}  // namespace penstock
