#pragma once

#include <cstring>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/daemon/shard/shard_rig.hpp"

namespace penstock::testing {

/// A client of a daemon with a pipeline that keeps state (0) and one that does not (1).
class session_reception : public ::testing::Test {
 protected:
  void start(shard_wish wish = {}) {
    wish.plans = {{.max_frames = 4, .keeps_state = true}, {}};
    rig_.emplace(wish);
    client_.emplace(*rig_);
  }
  guest& client() { return *client_; }
  [[nodiscard]] std::uint32_t open(const std::string& name, std::uint32_t pipeline = 0) {
    const raw_message got = client().open(name, pipeline);
    EXPECT_EQ(got.header.type, wire::message_type::session_opened);
    return got.header.session;
  }
  // A RESULT of the session; the running total after its last frame.
  static std::int32_t total_of(const raw_message& got, std::uint64_t id, std::uint32_t session,
                               std::uint64_t sequence) {
    EXPECT_EQ(got.header.type, wire::message_type::result);
    EXPECT_EQ(got.header.request_id, id);
    EXPECT_EQ(got.header.session, session);
    EXPECT_EQ(got.header.sequence, sequence);
    std::int32_t total = -1;
    if (got.parts.size() == 4 && got.parts[3].size() >= sizeof total) {
      std::memcpy(&total, got.parts[3].data() + got.parts[3].size() - sizeof total, sizeof total);
    }
    return total;
  }
  static std::int32_t sum_of(const std::string& payload) { return sums_of(payload, 1).front(); }
  void expect_balanced(std::uint64_t accepted) {
    const nlohmann::json status = client().status();
    EXPECT_TRUE(status.at("balanced").get<bool>());
    EXPECT_EQ(status.at("requests").at("accepted"), accepted);
    EXPECT_EQ(status.at("requests").at("in_flight"), 0);
  }
  [[nodiscard]] int refused(const char* code) {
    const nlohmann::json status = client().status();
    return status.at("refused").value(code, 0);
  }

  std::optional<shard_rig> rig_;
  std::optional<guest> client_;
};

}  // namespace penstock::testing
