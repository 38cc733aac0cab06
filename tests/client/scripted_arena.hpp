#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "client/cpp/file_descriptor.hpp"
#include "proto/control.hpp"

namespace penstock::test {

/// Memory without a name, sealed as the daemon's is unless told otherwise.
[[nodiscard]] link::file_descriptor make_memory(std::size_t bytes, bool sealed = true);

/// Memory that the test, as the daemon, shares with one client: a Unix socket to fetch it from, and the memory. It
/// waits at most 20 seconds for the client, and throws std::runtime_error when nobody comes. Thread: one at a time.
class scripted_arena {
 public:
  static constexpr std::size_t usual_bytes = std::size_t{1} << 16U;
  explicit scripted_arena(std::uint32_t number = 3, std::size_t bytes = usual_bytes);
  scripted_arena(const scripted_arena&) = delete;
  scripted_arena& operator=(const scripted_arena&) = delete;
  ~scripted_arena();

  /// What ATTACHED says.
  [[nodiscard]] wire::attached where() const { return {"@" + name_, ticket_}; }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_; }

  /// Lets the client in, which has to show its ticket, and hands the memory over.
  void hand_over();
  /// The same, with an answer of the test's own; a negative descriptor is left out.
  void answer(const std::string& bytes, int descriptor);
  /// More bytes, behind an answer.
  void add(const std::string& bytes);
  [[nodiscard]] std::string right_answer() const;
  /// Lets the client in and sends it away.
  void turn_away();
  void end_lease();
  /// Waits until the client has ended the lease.
  void await_end_of_lease();

 private:
  void let_in();

  std::uint32_t number_;
  std::string name_;
  std::string ticket_;
  link::file_descriptor listener_;
  link::file_descriptor lease_;
  link::file_descriptor descriptor_;
  std::span<std::byte> memory_;
};

}  // namespace penstock::test
