#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "daemon/device/device.hpp"
#include "daemon/shared_memory/sealed_memory.hpp"

namespace penstock {

class client_arena;

/// Where an arena goes when nobody uses it any more.
class arena_owner {
 public:
  arena_owner() = default;
  arena_owner(const arena_owner&) = delete;
  arena_owner& operator=(const arena_owner&) = delete;
  virtual ~arena_owner() = default;

  /// Any thread, once for each arena. It destroys the arena, on a thread that may take its time.
  virtual void take_back(client_arena& unused) noexcept = 0;
};

/// A piece of memory that one client shares with the daemon, pinned for the device that reads and writes it. Its uses
/// keep it in being: one by the shard as long as the client may name it, and one by each request that lies in it.
class client_arena {
 public:
  /// With one use. Throws std::system_error or device_error.
  client_arena(std::uint32_t number, std::size_t bytes, device& on, arena_owner& owner);
  ~client_arena();
  client_arena(const client_arena&) = delete;
  client_arena& operator=(const client_arena&) = delete;

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }
  [[nodiscard]] int descriptor() const noexcept { return memory_.descriptor(); }
  /// Its client has it.
  void close_descriptor() noexcept { memory_.close_descriptor(); }
  /// Whether that range lies inside.
  [[nodiscard]] bool contains(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset <= memory_.bytes() && bytes <= memory_.bytes() - offset;
  }
  /// Inside, for an offset that `contains` allows.
  [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return memory_.data() + offset; }

  /// Any thread that has a use already.
  void use() noexcept { uses_.fetch_add(1, std::memory_order_relaxed); }
  /// Any thread: gives up one use. After the last one nothing may touch the arena.
  void drop() noexcept;

 private:
  std::uint32_t number_;
  device& device_;
  arena_owner& owner_;
  sealed_memory memory_;
  std::atomic<std::uint32_t> uses_{1};
};

}  // namespace penstock
