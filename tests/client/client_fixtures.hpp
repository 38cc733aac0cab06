#pragma once

#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <penstock/client.hpp>
#include <penstock/session.hpp>

#include "proto/message.hpp"
#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {

/// A scripted daemon with the pipeline "double", and a client of it.
class client_fixture : public ::testing::Test {
 protected:
  void connect(const client_options& options = quick_options()) { client_ = daemon_.connect(options); }
  /// Submits frames of "double" that count up from `first`.
  [[nodiscard]] std::future<result> submit_frames(std::uint32_t frames, std::uint8_t first = 1,
                                                  std::optional<std::chrono::nanoseconds> timeout = {});
  /// Returns when the client has handled everything that the daemon has sent. Throws if the client has sent anything
  /// meanwhile.
  void settle();
  /// The error that the future ends with. Throws std::logic_error when it has a result.
  [[nodiscard]] static request_error error_of(std::future<result>& reply);

  scripted_daemon daemon_;
  std::unique_ptr<client> client_;
};

/// The pipeline "double" keeps state, and the client has sessions on it.
class session_fixture : public client_fixture {
 protected:
  session_fixture();

  /// Opens a session, to which the daemon gives that number.
  [[nodiscard]] session open(std::uint32_t number = 5, const std::string& name = "antenna");
  /// Begins to open a session; the test must answer the OPEN.
  [[nodiscard]] std::future<session> begin_to_open(const std::string& name = "antenna");

  [[nodiscard]] static std::future<result> submit(session& target, std::uint32_t frames = 1,
                                                  std::optional<std::chrono::nanoseconds> timeout = {});
  /// The next message, which must be the SUBMIT of that sequence.
  received expect_submit(std::uint64_t sequence);

  /// What submit throws.
  [[nodiscard]] static request_error refusal_of(session& target);
};

/// The daemon shares memory. 16 frames of "double" are large: 64 bytes, and 192 bytes for their outputs.
class shared_memory_fixture : public client_fixture {
 protected:
  static constexpr std::uint32_t large = 16;
  static constexpr std::uint32_t small = 8;

  shared_memory_fixture();

  /// Options with which 16 frames are large and 8 are not.
  [[nodiscard]] static client_options options(transport transport_kind = transport::automatic);
  /// The same, with short retry times.
  [[nodiscard]] static client_options impatient();
  void connect(const client_options& options_used = options()) { client_ = daemon_.connect(options_used); }
  /// A client that has the arena.
  void connect_shared(client_options options_used = options());

  [[nodiscard]] std::future<result> submit(std::uint32_t frames = large, std::uint8_t first = 1,
                                           std::optional<std::chrono::nanoseconds> timeout = {}) {
    return submit_frames(frames, first, timeout);
  }
  /// Submits the caller's memory, which is not copied if it is lent.
  [[nodiscard]] std::future<result> submit(std::span<const std::byte> bytes);
  /// The next message, which must be a SUBMIT_SHARED.
  [[nodiscard]] received expect_shared() { return daemon_.expect(wire::message_type::submit_shared); }
  /// The next message of that type. Answers HELLOs before it and skips other messages.
  [[nodiscard]] received next_of(wire::message_type type);
  /// Refuses the next message, which must be an ATTACH. Returns the bytes that it asked for.
  std::uint64_t refuse_attach(const std::string& reason);
  [[nodiscard]] received expect_submit() { return daemon_.expect(wire::message_type::submit); }
  /// Waits until the client has shared memory, or has none.
  void await_sharing(bool wanted);
  [[nodiscard]] std::uint64_t used() const { return client_->shared_memory().used_bytes; }

  /// Expects what "double" makes of frames that count up from `first`.
  static void expect_right(const result& got, std::uint8_t first = 1);

  scripted_arena arena_;
};

}  // namespace penstock::test
