#include "daemon/admin/http/health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/daemon/admin/http/made_up_report.hpp"

namespace penstock::testing {
namespace {

using namespace std::chrono_literals;

// The reasons of the checks that fail.
std::vector<std::string> failures(const shard_answers& shards, daemon_state state = daemon_state::ready) {
  std::vector<std::string> reasons;
  for (const health_check& each : readiness_of(shards, state, 15s)) {
    if (!each.passed) {
      reasons.push_back(each.name + ": " + each.reason);
    }
  }
  return reasons;
}

using reasons = std::vector<std::string>;

TEST(Health, IsReadyWhenEveryShardServes) {
  EXPECT_EQ(failures({made_up_report(0, 1), made_up_report(1, 1)}), reasons{});
}

TEST(Health, IsReadyWhenIdleForLong) {
  shard_report idle = made_up_report(0, 1);
  idle.since_completion = 24h;
  EXPECT_EQ(failures({idle}), reasons{});
}

TEST(Health, IsNotReadyBeforeAllServeOrWhileDraining) {
  EXPECT_EQ(failures({made_up_report(0, 1)}, daemon_state::starting), reasons{"started: still starting"});
  EXPECT_EQ(failures({made_up_report(0, 1)}, daemon_state::draining),
            reasons{"not draining: draining: new requests are answered SHUTDOWN"});
}

TEST(Health, IsNotReadyWhenAShardDoesNotAnswer) {
  EXPECT_EQ(failures({made_up_report(0, 1), std::nullopt, std::nullopt}),
            reasons{"shards: no answer in time from shard 1, 2"});
}

TEST(Health, IsNotReadyWhenADeviceFailed) {
  shard_report broken = made_up_report(1, 1);
  broken.device_error = "cudaErrorECCUncorrectable";
  EXPECT_EQ(failures({made_up_report(0, 1), broken}),
            reasons{"device: the device of shard 1 failed: cudaErrorECCUncorrectable"});
}

TEST(Health, IsNotReadyWhileOthersAreTurnedAwayForWantOfPlaces) {
  shard_report full = made_up_report(0, 1);
  full.short_of_clients = true;
  EXPECT_EQ(failures({full}),
            reasons{"places: shard 0 has no room for another client (clients.max_clients, limits.memory)"});
  full.short_of_clients = false;
  full.short_of_sessions = true;
  EXPECT_EQ(failures({full}), reasons{"places: shard 0 has no room for another session (sessions.max_sessions)"});
}

TEST(Health, IsNotReadyWhenADeviceFinishesNothing) {
  shard_report stuck = made_up_report(0, 1);
  stuck.batches_in_flight = 3;
  stuck.standing_still = 15s;
  EXPECT_EQ(failures({stuck}), reasons{}) << "just in time";
  stuck.standing_still = 15001ms;
  EXPECT_EQ(failures({stuck}), reasons{"progress: shard 0 has 3 batches on its device and finished none for 15.0 s"});
}

TEST(Health, IsAliveWhileEveryShardAnswersOrDrains) {
  EXPECT_TRUE(liveness_of({made_up_report(0, 1)}, daemon_state::ready).passed);
  EXPECT_FALSE(liveness_of({made_up_report(0, 1), std::nullopt}, daemon_state::ready).passed);
  EXPECT_TRUE(liveness_of({std::nullopt}, daemon_state::draining).passed);
}

TEST(Health, PrintsEachCheckWithItsReason) {
  const auto printed = nlohmann::json::parse(print_checks(readiness_of({std::nullopt}, daemon_state::ready, 15s)));
  EXPECT_EQ(printed.at("ready"), false);
  ASSERT_EQ(printed.at("checks").size(), 8U);
  EXPECT_EQ(printed.at("checks")[2].at("name"), "shards");
  EXPECT_EQ(printed.at("checks")[2].at("passed"), false);
  EXPECT_EQ(printed.at("checks")[2].at("reason"), "no answer in time from shard 0");
}

}  // namespace
}  // namespace penstock::testing
