#pragma once

#include <cstddef>
#include <span>

namespace penstock::wire::testing {

/// A copy of some bytes that ends where memory ends: the page behind the last byte can't be read, so that a reader
/// that goes one byte too far dies at once, with or without a sanitizer.
class guarded_bytes {
 public:
  explicit guarded_bytes(std::span<const std::byte> bytes);
  ~guarded_bytes();
  guarded_bytes(const guarded_bytes&) = delete;
  guarded_bytes& operator=(const guarded_bytes&) = delete;

  [[nodiscard]] std::span<const std::byte> view() const noexcept { return view_; }

 private:
  std::byte* mapped_;
  std::size_t mapped_bytes_;
  std::span<const std::byte> view_;
};

}  // namespace penstock::wire::testing
