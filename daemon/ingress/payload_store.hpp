#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// Keeps the payloads of requests that wait for a slot, or are read or written over where they came in, under
/// request::index. Thread: the shard.
class payload_store {
 public:
  payload_store() = default;
  payload_store(const payload_store&) = delete;
  payload_store& operator=(const payload_store&) = delete;
  virtual ~payload_store() = default;

  /// Its bytes, which the device may write over: see plan::rewrites_input.
  [[nodiscard]] virtual std::span<std::byte> parked(std::uint32_t place) noexcept = 0;
  /// Lets go of it, if it is still there.
  virtual void unpark(std::uint32_t place) noexcept = 0;
};

}  // namespace penstock
