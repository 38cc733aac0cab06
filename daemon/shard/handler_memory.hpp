#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace penstock {

/// Memory for what Asio remembers of a wait: a few blocks that are used over and over. Asio recycles its own only
/// inside of `run`, and a shard starts its waits outside. Thread: the shard.
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

  // Two descriptors and a timer, whose cancelled wait is still there when the next one begins.
  std::array<block, 6> blocks_{};
};

/// A handler whose wait lies in such memory.
template <typename Handler>
class remembered_handler {
 public:
  /// As the standard's allocators are.
  template <typename Value>
  struct allocator {
    using value_type = Value;

    explicit allocator(handler_memory& from) noexcept : memory(&from) {}
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

  remembered_handler(handler_memory& in, Handler handler) : memory_(in), handler_(std::move(handler)) {}
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
