#pragma once

#include <future>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <penstock/session.hpp>

#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {

/// A daemon that the test plays, whose pipeline "double" keeps state, and a client with sessions on it.
class session_rig : public ::testing::Test {
 protected:
  session_rig();

  void connect(const client_options& options = quick_options()) { client_ = daemon_.connect(options); }
  /// Opens a session, to which the daemon gives that number.
  [[nodiscard]] session open(std::uint32_t number = 5, const std::string& name = "antenna");
  /// Begins to open one; the OPEN has to be answered.
  [[nodiscard]] std::future<session> begin_to_open(const std::string& name = "antenna");

  [[nodiscard]] static std::future<result> submit(session& to, std::uint32_t frames = 1,
                                                  std::optional<std::chrono::nanoseconds> timeout = {});
  /// The next message, which must be the SUBMIT of that sequence.
  received expect_submit(std::uint64_t sequence);
  /// Everything that the daemon has sent has been handled when this returns, and the client has sent nothing else.
  void settle();

  [[nodiscard]] static request_error error_of(std::future<result>& from);
  /// What submit throws.
  [[nodiscard]] static request_error refusal_of(session& to);

  scripted_daemon daemon_;
  std::unique_ptr<client> client_;
};

}  // namespace penstock::test
