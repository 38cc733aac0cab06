#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <penstock/export.hpp>

namespace penstock {

/// Memory that a client shares with its daemon, to write frames into: a request whose bytes lie in it, at a multiple of
/// 64 bytes from its beginning, is not copied on its way to the device. What a request names must stay as it is until
/// the request has its result, or its `release` is called: one that expired or was cancelled, or was refused because
/// the daemon stops, may still be read by the device, in a session for what comes after it; without a `release`, drop
/// this and lend another. It may be sent in any number of requests, also at once. The room goes back when this has gone
/// and no request needs it any more.
///
/// Threads: any, one at a time. It may outlive its client, and stays readable and writable then, and after a restart of
/// the daemon; requests that are made of it after a restart are copied like any others.
class PENSTOCK_EXPORT lent_memory {
 public:
  /// For the client: `owner` keeps the room.
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

  /// What can be written, aligned to 64 bytes; empty after it has been moved from. Not cleared.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace penstock
