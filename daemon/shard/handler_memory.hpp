#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace penstock {

/// A few blocks of memory for Asio's pending waits, used again and again. Asio recycles memory only for waits that
/// start inside `run`, but a shard starts them outside. Thread: the shard.
class handler_memory {
 public:
  [[nodiscard]] void* take(std::size_t bytes) {
    for (block& each : blocks_) {
      if (!each.taken && bytes <= sizeof each.room) {
        each.taken = true;
        return each.room.data();
      }
    }
    return ::operator new(bytes);
  }
  void give_back(void* memory) noexcept {
    for (block& each : blocks_) {
      if (memory == each.room.data()) {
        each.taken = false;
        return;
      }
    }
    ::operator delete(memory);
  }

 private:
  struct block {
    alignas(std::max_align_t) std::array<std::byte, 256> room;
    bool taken = false;
  };

  // Two descriptors and a timer. A cancelled wait of each can still be pending when the next one begins.
  std::array<block, 6> blocks_{};
};

/// A handler whose pending wait is allocated from a handler_memory.
template <typename Handler>
class remembered_handler {
 public:
  /// Meets the standard's requirements for allocators.
  template <typename Value>
  struct allocator {
    using value_type = Value;

    explicit allocator(handler_memory& source) noexcept : memory(&source) {}
    template <typename Other>
    allocator(const allocator<Other>& other) noexcept : memory(other.memory) {}  // NOLINT: they convert
    [[nodiscard]] Value* allocate(std::size_t count) {
      return static_cast<Value*>(memory->take(count * sizeof(Value)));
    }
    void deallocate(Value* values, std::size_t /*count*/) noexcept { memory->give_back(values); }
    template <typename Other>
    [[nodiscard]] bool operator==(const allocator<Other>& other) const noexcept {
      return memory == other.memory;
    }

    handler_memory* memory;
  };
  using allocator_type = allocator<std::byte>;

  remembered_handler(handler_memory& memory, Handler handler) : memory_(memory), handler_(std::move(handler)) {}
  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type(memory_); }
  template <typename... Arguments>
  void operator()(Arguments&&... arguments) {
    handler_(std::forward<Arguments>(arguments)...);
  }

 private:
  handler_memory& memory_;
  Handler handler_;
};

}  // namespace penstock
