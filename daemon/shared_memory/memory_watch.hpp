#pragma once

#include <utility>

namespace penstock {

/// Tells whether anybody has a memory file still, as a descriptor or mapped: all of its pages stay as long as somebody
/// does. It sees whoever got the file from `open_again`, and what was made of that, in whichever process; not those
/// that have the first descriptor, nor a descriptor that was opened with O_PATH. Thread: one at a time.
class memory_watch {
 public:
  /// Of that file, which stays the caller's. Where the system can't say it never sees anybody.
  explicit memory_watch(int file) noexcept;
  memory_watch(memory_watch&& other) noexcept : own_(std::exchange(other.own_, -1)) {}
  memory_watch& operator=(memory_watch&& other) noexcept {
    std::swap(own_, other.own_);
    return *this;
  }
  ~memory_watch();

  [[nodiscard]] bool sees_anybody() const noexcept;
  /// Another descriptor of the file, for somebody else, which is not the caller's first one again; -1 when there is
  /// none.
  [[nodiscard]] static int open_again(int file) noexcept;

 private:
  int own_;
};

}  // namespace penstock
