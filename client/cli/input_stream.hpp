#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/cli/stop_event.hpp"

namespace penstock::cli {

/// A file that is not what it says, that the pipeline can't take, or that can't be read. The text says what to do.
class input_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The bytes of a file, a FIFO, a device or the standard input. A read waits, and ends when a stop is requested.
/// Thread: one at a time.
class input_stream {
 public:
  using clock = std::chrono::steady_clock;

  /// "-" is the standard input. A FIFO without a writer is opened at once. Throws input_error. `stop` must live longer.
  input_stream(std::string name, stop_event& stop);
  /// Takes over the descriptor.
  input_stream(int descriptor, std::string name, stop_event& stop);
  ~input_stream();
  input_stream(const input_stream&) = delete;
  input_stream& operator=(const input_stream&) = delete;

  /// Takes what is there, at least one byte: 0 at the end, at a stop or at the deadline. Throws input_error.
  [[nodiscard]] std::size_t read_some(std::span<std::byte> out, std::optional<clock::time_point> deadline = {});
  /// Fills `out`; fewer bytes only at the end or at a stop.
  [[nodiscard]] std::size_t read_all(std::span<std::byte> out);
  /// The next bytes, which stay; fewer than `count` at the end, at a stop or at the deadline.
  [[nodiscard]] std::span<const std::byte> peek(std::size_t count, std::optional<clock::time_point> deadline = {});
  /// Leaves out so many bytes. False if the stream ends before.
  [[nodiscard]] bool skip(std::uint64_t count);
  /// Of a regular file: back to the first byte.
  void rewind();

  /// Nothing follows: the end of the stream, or a stop.
  [[nodiscard]] bool ended() const noexcept { return ahead_.empty() && (at_end_ || stop_.requested()); }
  [[nodiscard]] bool stopped() const noexcept { return stop_.requested(); }
  /// Set for a regular file: its bytes from where it was opened.
  [[nodiscard]] std::optional<std::uint64_t> size() const noexcept { return size_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  void look_at_kind();
  [[nodiscard]] bool wait(std::optional<clock::time_point> deadline);
  [[nodiscard]] std::size_t read_now(std::span<std::byte> out, std::optional<clock::time_point> deadline);

  std::string name_;
  stop_event& stop_;
  int descriptor_;
  std::optional<std::uint64_t> size_;
  std::int64_t begin_ = 0;        ///< of a regular file: the offset at which it was opened
  std::vector<std::byte> ahead_;  ///< bytes that were looked at
  bool at_end_ = false;
};

}  // namespace penstock::cli
