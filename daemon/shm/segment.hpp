#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/descriptors.hpp"
#include "daemon/device/device.hpp"

namespace penstock {

/// Memory that another process can map too. Its size is sealed, and every page is allocated from the start, so that
/// touching it can't fail.
class sealed_memory {
 public:
  /// Rounded up to whole pages. Throws std::system_error.
  explicit sealed_memory(std::size_t bytes);
  ~sealed_memory();
  sealed_memory(const sealed_memory&) = delete;
  sealed_memory& operator=(const sealed_memory&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return memory_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// To be sent to the other process; -1 after close_descriptor.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  void close_descriptor() noexcept { descriptor_.close(); }

 private:
  std::size_t bytes_;
  file_descriptor descriptor_;
  std::byte* memory_ = nullptr;
};

/// Tells whether anybody still has a memory file, as a descriptor or mapped: all of its pages stay as long as somebody
/// does. It sees every process that got the file from `open_again`, and what was made of that, in whichever process;
/// not those that have the first descriptor, nor a descriptor that was opened with O_PATH. Thread: one at a time.
class memory_watch {
 public:
  /// `file` stays the caller's. Where the system can't say, the watch never sees anybody.
  explicit memory_watch(int file) noexcept;

  [[nodiscard]] bool sees_anybody() const noexcept;
  /// Another descriptor of the file, for somebody else: not a copy of the first one. Empty where there is none.
  [[nodiscard]] static file_descriptor open_again(int file) noexcept;

 private:
  file_descriptor own_;
};

class client_arena;

/// Takes arenas that nobody uses any more.
class arena_owner {
 public:
  arena_owner() = default;
  arena_owner(const arena_owner&) = delete;
  arena_owner& operator=(const arena_owner&) = delete;
  virtual ~arena_owner() = default;

  /// Any thread, once for each arena. Destroys the arena, later and on a thread that may block.
  virtual void take_back(client_arena& unused) noexcept = 0;
};

/// Which memory an arena is.
enum class arena_memory : std::uint8_t {
  host,    ///< pinned for the device
  device,  ///< the device's own; the daemon can't touch it but by copies of the device
};

/// A piece of memory that one client shares with the daemon, which the device reads and writes. It is
/// reference-counted: the shard has one use as long as the client may name it, and each request in it has one.
class client_arena {
 public:
  /// With one use. Throws std::system_error or device_error.
  client_arena(std::uint32_t number, std::size_t bytes, device& device, arena_owner& owner,
               arena_memory memory = arena_memory::host);
  ~client_arena();
  client_arena(const client_arena&) = delete;
  client_arena& operator=(const client_arena&) = delete;

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] arena_memory memory() const noexcept { return exported_ ? arena_memory::device : arena_memory::host; }
  [[nodiscard]] int descriptor() const noexcept { return exported_ ? exported_->descriptor() : sealed_->descriptor(); }
  /// Once the client has it.
  void close_descriptor() noexcept { exported_ ? exported_->close_descriptor() : sealed_->close_descriptor(); }
  /// Whether that range lies inside.
  [[nodiscard]] bool contains(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }
  /// Inside, for an offset that `contains` allows.
  [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return data_ + offset; }

  /// Any thread that has a use already.
  void use() noexcept { uses_.fetch_add(1, std::memory_order_relaxed); }
  /// Any thread: gives up one use. After the last one nothing may touch the arena.
  void drop() noexcept;

 private:
  std::uint32_t number_;
  device& device_;
  arena_owner& owner_;
  std::optional<sealed_memory> sealed_;
  exported_device_memory exported_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::atomic<std::uint32_t> uses_{1};
};

}  // namespace penstock
