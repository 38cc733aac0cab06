#pragma once

#include <atomic>
#include <string_view>
#include <utility>

namespace penstock {

/// The only owner of an open file descriptor, or of none (-1).
class file_descriptor {
 public:
  file_descriptor() = default;
  explicit file_descriptor(int number) noexcept : number_(number) {}
  file_descriptor(file_descriptor&& other) noexcept : number_(other.release()) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~file_descriptor() { close(); }

  [[nodiscard]] int number() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  /// The caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }
  void close() noexcept;

 private:
  int number_ = -1;
};

/// Opens standard input, output and error where they are closed, so that reading and writing still fail: otherwise a
/// socket or file would get their numbers. To be called before anything else is opened.
void occupy_standard_descriptors() noexcept;

/// Locks the file until the descriptor is closed. False if this process or another one holds the lock already.
[[nodiscard]] bool lock_file(int descriptor) noexcept;

/// Writes all of it. False when a write fails; errno says why.
[[nodiscard]] bool write_all(int descriptor, std::string_view bytes) noexcept;

/// An eventfd: wakes one thread that waits until `descriptor()` is readable. Immovable: callbacks hold its address.
///
/// It is used in one of two ways:
/// - `signal` makes the descriptor readable, until `clear`.
/// - Without a system call where nobody sleeps: the sleeper calls `prepare`, looks once more at everything that could
///   have been brought to it, only then waits for the descriptor, and calls `awake`. Whoever brings something stores it
///   first, then calls `wake`.
class wake_event {
 public:
  /// Throws std::system_error when the system gives no descriptor.
  wake_event();
  wake_event(const wake_event&) = delete;
  wake_event& operator=(const wake_event&) = delete;
  ~wake_event() = default;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }

  /// Any thread, and a signal handler: keeps errno.
  void signal() noexcept;
  /// The thread that waits.
  void clear() noexcept;

  /// Sleeper: from here on `wake` signals the descriptor.
  void prepare() noexcept { sleeping_.store(true, std::memory_order_seq_cst); }
  /// Sleeper: awake again; clears the descriptor.
  void awake() noexcept;
  /// Any thread. One atomic exchange, and a system call only when the sleeper sleeps.
  void wake() noexcept;

 private:
  file_descriptor descriptor_;
  std::atomic<bool> sleeping_{false};  // both sides write: of several wakers, the exchange in wake() lets one signal
};

}  // namespace penstock
