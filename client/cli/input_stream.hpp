#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/descriptors.hpp"

namespace penstock::cli {

/// A request to end a stream, from a signal handler or another thread. The constructor throws std::system_error when no
/// descriptor is available.
class stop_event {
 public:
  /// Async-signal-safe. `signal`: the signal that caused it, 0 = none. False if a stop was requested before.
  bool request(int signal = 0) noexcept;

  [[nodiscard]] bool requested() const noexcept { return requested_; }
  /// The signal of the first request.
  [[nodiscard]] int signal() const noexcept { return signal_; }
  /// To poll: readable after the first request.
  [[nodiscard]] int descriptor() const noexcept { return event_.descriptor(); }

 private:
  wake_event event_;
  std::atomic<bool> requested_{false};
  std::atomic<int> signal_{0};
  static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
};

/// The first SIGINT, SIGTERM or SIGHUP ends the stream like the end of the input, the second ends the program. Ignored
/// signals, as under nohup, stay ignored. `stop` is valid until the program ends.
void end_stream_on_signals(stop_event& stop);

/// An input that is malformed, unreadable, or unsuitable for the pipeline. The text says what to do.
class input_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads bytes from a file, a FIFO, a device or the standard input. Reads block until data, the end or a stop. Not
/// thread-safe.
class input_stream {
 public:
  using clock = std::chrono::steady_clock;

  /// "-" is the standard input. Does not wait for a FIFO's writer. Throws input_error. `stop` must outlive this.
  input_stream(std::string name, stop_event& stop);
  /// Takes ownership of the descriptor.
  input_stream(int descriptor, std::string name, stop_event& stop);

  /// Reads the available bytes, at least one. 0 at the end, at a stop or at the deadline. Throws input_error.
  [[nodiscard]] std::size_t read_some(std::span<std::byte> out, std::optional<clock::time_point> deadline = {});
  /// Fills `out`. Fewer bytes only at the end or at a stop.
  [[nodiscard]] std::size_t read_all(std::span<std::byte> out);
  /// The next `count` bytes, without consuming them. Fewer at the end, at a stop or at the deadline.
  [[nodiscard]] std::span<const std::byte> peek(std::size_t count, std::optional<clock::time_point> deadline = {});
  /// Skips `count` bytes. False if the stream ends before.
  [[nodiscard]] bool skip(std::uint64_t count);
  /// Returns to the first byte. Regular files only.
  void rewind();

  /// True when nothing follows: the end, or a stop.
  [[nodiscard]] bool ended() const noexcept { return ahead_.empty() && (at_end_ || stop_.requested()); }
  [[nodiscard]] bool stopped() const noexcept { return stop_.requested(); }
  /// Size of a regular file from the offset where it was opened; nullopt for other inputs.
  [[nodiscard]] std::optional<std::uint64_t> size() const noexcept { return size_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }

 private:
  void look_at_kind();
  [[nodiscard]] bool wait(std::optional<clock::time_point> deadline);
  [[nodiscard]] std::size_t read_now(std::span<std::byte> out, std::optional<clock::time_point> deadline);

  std::string name_;
  stop_event& stop_;
  file_descriptor descriptor_;
  std::optional<std::uint64_t> size_;
  std::int64_t begin_ = 0;        ///< offset at which a regular file was opened
  std::vector<std::byte> ahead_;  ///< peeked bytes
  bool at_end_ = false;
};

}  // namespace penstock::cli
