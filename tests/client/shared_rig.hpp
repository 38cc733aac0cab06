#pragma once

#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <gtest/gtest.h>
#include <penstock/client.hpp>

#include "tests/client/scripted_arena.hpp"
#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {

/// A daemon that the test plays, which shares memory, and a client. 16 frames of "double" are large: 64 bytes, and room
/// of 192 for their outputs.
class shared_rig : public ::testing::Test {
 protected:
  static constexpr std::uint32_t large = 16;
  static constexpr std::uint32_t small = 8;

  shared_rig();

  /// Options with which 16 frames are large and 8 are not.
  [[nodiscard]] static client_options options(transport how = transport::automatic);
  /// The same of a client that sends again soon.
  [[nodiscard]] static client_options impatient();
  void connect(const client_options& how = options()) { client_ = daemon_.connect(how); }
  /// A client that has the arena.
  void connect_shared(client_options how = options());

  [[nodiscard]] std::future<result> submit(std::uint32_t frames = large, std::uint8_t first = 1,
                                           std::optional<std::chrono::nanoseconds> timeout = {});
  /// The same from memory of the caller's, which is not copied where it is lent.
  [[nodiscard]] std::future<result> submit(std::span<const std::byte> bytes);
  /// The next message, which must be a SUBMIT_SHARED.
  [[nodiscard]] received expect_shared() { return daemon_.expect(wire::message_type::submit_shared); }
  /// The next message of that type; HELLOs before it are answered, and all others passed over.
  [[nodiscard]] received next_of(wire::message_type type);
  /// Refuses the next message, which must be an ATTACH: for how many bytes it was.
  std::uint64_t refuse_attach(const std::string& why);
  [[nodiscard]] received expect_submit() { return daemon_.expect(wire::message_type::submit); }
  /// Everything that the daemon has sent has been handled when this returns, and the client has sent nothing else.
  void settle();
  /// Waits until the client has, or has no, memory to share.
  void await_sharing(bool wanted);
  [[nodiscard]] std::uint64_t used() const { return client_->shared_memory().used_bytes; }

  /// That it is what "double" makes of frames that count up from `first`.
  static void expect_right(const result& got, std::uint8_t first = 1);
  [[nodiscard]] static request_error error_of(std::future<result>& from);

  scripted_daemon daemon_;
  scripted_arena arena_;
  std::unique_ptr<client> client_;
};

}  // namespace penstock::test
