#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <penstock/export.hpp>

namespace penstock {

/// A block of memory that is shared with the daemon, to write frames into. Requests whose bytes lie in it, at a
/// multiple of 64 bytes from its start, reach the device without a copy. Bytes of a request must not change until it
/// has its result or its `release` is called: the device may still read a request that expired, was cancelled, or was
/// refused because the daemon stops. Without a `release`, destroy this block then and get another one. Any number of
/// requests may use the block at the same time. The memory is freed when this object is gone and no request uses it any
/// more.
///
/// Not thread-safe. It may outlive its client and stays usable then, as after a restart of the daemon; requests made
/// from it after a restart are copied.
class PENSTOCK_EXPORT lent_memory {
 public:
  /// For the client's use: `owner` keeps the memory reserved.
  lent_memory(std::span<std::byte> bytes, std::shared_ptr<const void> owner) noexcept
      : bytes_(bytes), owner_(std::move(owner)) {}
  lent_memory(lent_memory&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), owner_(std::move(other.owner_)) {}
  lent_memory& operator=(lent_memory&& other) noexcept {
    bytes_ = std::exchange(other.bytes_, {});
    owner_ = std::move(other.owner_);
    return *this;
  }
  ~lent_memory() = default;

  /// The memory, aligned to 64 bytes and not cleared; empty after a move.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace penstock
