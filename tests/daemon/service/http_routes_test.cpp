#include "daemon/service/http_routes.hpp"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/daemon/service/made_up_report.hpp"

namespace penstock::testing {
namespace {

using namespace std::chrono_literals;
using reasons = std::vector<std::string>;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The reasons of the checks that fail.
reasons failures(const shard_answers& shards, daemon_state state = daemon_state::ready) {
  reasons found;
  for (const health_check& each : readiness_of(shards, state, 15s)) {
    if (!each.passed) {
      found.push_back(each.name + ": " + each.reason);
    }
  }
  return found;
}

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

class Api : public ::testing::Test {
 protected:
  Api() { api_.set(daemon_state::ready); }

  http_reply ask(const std::string& path, const std::string& method = "GET",
                 std::map<std::string, std::string> query = {}) {
    std::optional<http_reply> got;
    api_.answer({method, path, std::move(query)}, [&](http_reply reply) { got = std::move(reply); });
    while (!got && admin_.run_one() != 0) {
    }
    return got.value();
  }

  boost::asio::io_context admin_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ = boost::asio::make_work_guard(admin_);
  time_point now_{1h};
  shard_answers shards_{made_up_report(0, 50)};
  std::function<void(reload_outcome)> reloading_;
  shard_reports reports_{[this](const auto& done) { done(shards_); }, [this] { return now_; }};
  trace_collector traces_{
      admin_, [](const auto&, const auto& done) {
        done({timeline_page{R"({"now_ns":1,"shard":0,"device":"d","pipelines":{},"batches":[]})", 1}});
      }};
  metrics metrics_;
  api api_{{reports_, traces_, metrics_, [this](auto done) { reloading_ = std::move(done); }, [this] { return now_; },
            15s, [] { return std::size_t{1}; }}};
};

TEST_F(Api, KnowsItsPathsAndTheirMethods) {
  for (const char* path : {"/", "/livez", "/readyz", "/metrics", "/api/v1/status", "/api/v1/trace"}) {
    EXPECT_EQ(ask(path).status, 200U) << path;
  }
  for (const char* path : {"/metric", "/metrics/", "/api/v1", "", "/api/v2/status"}) {
    EXPECT_EQ(ask(path).status, 404U) << path;
  }
  EXPECT_EQ(ask("/metrics", "POST").status, 405U);
  EXPECT_EQ(ask("/metrics", "POST").allow, "GET, HEAD");
  EXPECT_EQ(ask("/api/v1/reload").status, 405U);
  EXPECT_EQ(ask("/api/v1/reload").allow, "POST");
  EXPECT_EQ(ask("/", "DELETE").status, 404U);
}

TEST_F(Api, IsAliveAndReadyWhenTheShardsAre) {
  EXPECT_EQ(ask("/livez").status, 200U);
  EXPECT_EQ(ask("/readyz").status, 200U);
  EXPECT_EQ(json::parse(ask("/readyz").body).at("ready"), true);
  now_ += 1s;
  shards_[0].reset();
  EXPECT_EQ(ask("/livez").status, 503U);
  EXPECT_EQ(ask("/readyz").status, 503U);
}

TEST_F(Api, IsAliveAndNotReadyWhileItDrains) {
  api_.set(daemon_state::draining);
  EXPECT_EQ(ask("/livez").status, 200U);
  const http_reply ready = ask("/readyz");
  EXPECT_EQ(ready.status, 503U);
  EXPECT_THAT(ready.body, HasSubstr("draining"));
  EXPECT_THAT(ask("/metrics").body, HasSubstr("penstock_draining 1"));
  EXPECT_EQ(json::parse(ask("/api/v1/status").body).at("state"), "draining");
}

TEST_F(Api, GivesMetricsInTheFormatOfPrometheus) {
  const http_reply reply = ask("/metrics");
  EXPECT_THAT(reply.type, StartsWith("text/plain; version=0.0.4"));
  EXPECT_THAT(reply.body, HasSubstr("penstock_requests_total{outcome=\"result\",pipeline=\"spectrum\"} 50"));
}

TEST_F(Api, GivesTheStatusAsJson) {
  const http_reply reply = ask("/api/v1/status");
  EXPECT_EQ(reply.type, "application/json");
  EXPECT_EQ(json::parse(reply.body).at("shards").size(), 1U);
}

TEST_F(Api, MakesOneTimelineAtATime) {
  EXPECT_EQ(ask("/api/v1/trace", "GET", {{"last", "soon"}}).status, 400U);
  std::optional<http_reply> first;
  api_.answer({"GET", "/api/v1/trace", {{"last", "500ms"}}}, [&](http_reply reply) { first = std::move(reply); });
  EXPECT_EQ(ask("/api/v1/trace").status, 409U);
  while (!first && admin_.run_one() != 0) {
  }
  EXPECT_EQ(first.value().status, 200U);
  EXPECT_TRUE(json::parse(first->body).at("traceEvents").is_array());
  EXPECT_EQ(ask("/api/v1/trace").status, 200U);
}

TEST_F(Api, SaysWhatBecameOfAReload) {
  std::optional<http_reply> got;
  const auto reload = [&](const reload_outcome& outcome) {
    got.reset();
    api_.answer({"POST", "/api/v1/reload", {}}, [&](http_reply reply) { got = std::move(reply); });
    EXPECT_FALSE(got);
    EXPECT_EQ(ask("/api/v1/reload", "POST").status, 409U);
    std::exchange(reloading_, nullptr)(outcome);
    return json::parse(got.value().body);
  };
  EXPECT_EQ(reload({true, 4, "cafe", ""}), (json{{"version", 4}, {"hash", "cafe"}, {"changed", true}}));
  EXPECT_EQ(got->status, 200U);
  EXPECT_EQ(reload({false, 4, "cafe", "line 3 is wrong"}),
            (json{{"version", 4}, {"hash", "cafe"}, {"changed", false}, {"error", "line 3 is wrong"}}));
  EXPECT_EQ(got->status, 422U);
}

TEST_F(Api, ReloadsNothingWhileItDrains) {
  api_.set(daemon_state::draining);
  EXPECT_EQ(ask("/api/v1/reload", "POST").status, 503U);
  EXPECT_FALSE(reloading_);
}

}  // namespace

}  // namespace penstock::testing
