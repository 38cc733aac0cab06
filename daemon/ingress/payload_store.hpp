#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// Keeps the payloads of requests that wait for a slot, or are read where they came in, under request::index. Thread:
/// the shard.
class payload_store {
 public:
  payload_store() = default;
  payload_store(const payload_store&) = delete;
  payload_store& operator=(const payload_store&) = delete;
  virtual ~payload_store() = default;

  [[nodiscard]] virtual std::span<const std::byte> parked(std::uint32_t place) const noexcept = 0;
  /// Lets go of it.
  virtual void unpark(std::uint32_t place) noexcept = 0;
};

}  // namespace penstock
