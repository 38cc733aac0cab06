#include "daemon/shard/shard.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>

#include "tests/daemon/shard/shard_rig.hpp"

namespace penstock {
namespace {

using testing::guest;
using testing::raw_message;
using testing::raw_peer;
using testing::shard_rig;
using testing::shard_wish;
using testing::submit_draft;
using wire::message_type;
using wire::status;

class Shard : public ::testing::TestWithParam<completion_mode> {
 protected:
  [[nodiscard]] shard_wish wish() const { return {.mode = GetParam()}; }
  [[nodiscard]] shard_wish held() const { return {.mode = GetParam(), .held = true}; }
};

TEST_P(Shard, AnswersEveryRequestOfSeveralClients) {
  shard_rig rig(wish());
  guest ann(rig);
  guest ben(rig);
  std::vector<std::string> payloads;
  for (std::uint64_t id = 0; id < 300; ++id) {
    for (guest* each : {&ann, &ben}) {
      const std::string payload = each->submit(id, 1 + static_cast<std::uint32_t>(id % 8));
      const raw_message got = each->next();
      ASSERT_EQ(got.header.request_id, id);
      ASSERT_EQ(got.parts.at(1), testing::next_of(payload));
    }
  }
  const nlohmann::json counters = ann.status();
  EXPECT_EQ(counters.at("requests").at("accepted"), 600);
  EXPECT_EQ(counters.at("requests").at("results"), 600);
  EXPECT_EQ(counters.at("pipelines").at(0).at("requests").at("results"), 600);
  EXPECT_TRUE(counters.at("balanced").get<bool>());
  rig.stop();
  EXPECT_EQ(rig.join(), shard_ending::drained);
}

TEST_P(Shard, WakesForWorkThatTheDeviceFinishesWhileItSleeps) {
  shard_rig rig(held());
  guest client(rig);
  for (std::uint64_t id = 1; id <= 50; ++id) {
    client.submit(id);
    ASSERT_TRUE(rig.device.wait_for_pending(1));
    rig.device.finish(0);
    ASSERT_EQ(client.next().header.request_id, id);
  }
}

TEST_P(Shard, ExpiresOnTimeWhileTheDeviceIsBusy) {
  shard_rig rig(held());
  guest client(rig);
  submit_draft draft(1);
  draft.header.timeout_ns = 20'000'000;
  client.send(draft.parts());
  const raw_message got = client.next();
  EXPECT_EQ(got.header.code, status::expired);
  EXPECT_EQ(got.json().at("step"), "executing");
  EXPECT_NE(got.json().at("reason").get<std::string>().find("timeout"), std::string::npos);
  rig.device.let_run();
  client.submit(2);
  EXPECT_EQ(client.next().header.request_id, 2U);
  EXPECT_EQ(client.status().at("requests").at("errors").at("EXPIRED"), 1);
}

TEST_P(Shard, DrainsWhatIsInFlightAndAnswersTheRest) {
  shard_wish some = held();
  some.plans = {{.max_frames = 1}};
  shard_rig rig(some);
  guest client(rig);
  client.submit(1);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  client.submit(2);
  client.submit(3);
  EXPECT_TRUE(client.has_nothing());
  rig.stop();
  const raw_message queued = client.next();
  EXPECT_EQ(queued.header.request_id, 3U);
  EXPECT_EQ(queued.header.code, status::shutdown);
  client.submit(4);
  const raw_message late = client.next();
  EXPECT_EQ(late.header.request_id, 4U);
  EXPECT_EQ(late.header.code, status::shutdown);
  EXPECT_EQ(client.status().at("state"), "draining");
  rig.device.let_run();
  EXPECT_EQ(client.next().header.type, message_type::result);
  EXPECT_EQ(client.next().header.type, message_type::result);
  EXPECT_EQ(rig.join(), shard_ending::drained);
}

TEST_P(Shard, EndsTheDrainAtASecondStop) {
  shard_rig rig(held());
  guest client(rig);
  client.submit(1);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  rig.stop();
  rig.stop();
  const raw_message got = client.next();
  EXPECT_EQ(got.header.request_id, 1U);
  EXPECT_EQ(got.header.code, status::shutdown);
  EXPECT_EQ(rig.join(), shard_ending::cut_short);
}

TEST_P(Shard, EndsTheDrainWhenItsTimeIsOver) {
  shard_wish some = held();
  some.drain_timeout = std::chrono::milliseconds{20};
  shard_rig rig(some);
  guest client(rig);
  client.submit(1);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  rig.stop();
  EXPECT_EQ(client.next().header.code, status::shutdown);
  EXPECT_EQ(rig.join(), shard_ending::cut_short);
}

TEST_P(Shard, HasDrainedWhenTheSecondStopFindsNothingInFlight) {
  shard_rig rig(wish());
  guest client(rig);
  client.submit(1);
  EXPECT_EQ(client.next().header.type, message_type::result);
  rig.stop();
  rig.stop();
  EXPECT_EQ(rig.join(), shard_ending::drained);
}

// Not at its next sweep, which is a second away.
TEST_P(Shard, EndsSoonAfterTheLastReply) {
  // The quickest of several: a busy machine may hold up any one of them, a missed wake-up holds up all.
  auto quickest = std::chrono::steady_clock::duration::max();
  for (int attempt = 0; attempt < 10 && quickest >= std::chrono::milliseconds{800}; ++attempt) {
    shard_rig rig(wish());
    guest client(rig);
    client.submit(1);
    EXPECT_EQ(client.next().header.type, message_type::result);
    const auto stopped = std::chrono::steady_clock::now();
    rig.stop();
    EXPECT_EQ(rig.join(), shard_ending::drained);
    quickest = std::min(quickest, std::chrono::steady_clock::now() - stopped);
  }
  EXPECT_LT(quickest, std::chrono::milliseconds{800});
}

TEST_P(Shard, AnswersEverythingInFlightWhenTheDeviceIsLost) {
  shard_wish some = held();
  some.plans = {{.max_frames = 1}};
  shard_rig rig(some);
  guest client(rig);
  client.submit(1);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  client.submit(2);
  client.submit(3);
  EXPECT_TRUE(client.has_nothing());
  rig.device.lose("cudaErrorIllegalAddress");
  for (int reply = 0; reply < 3; ++reply) {
    const raw_message got = client.next();
    EXPECT_EQ(got.header.code, status::device_failed);
    EXPECT_EQ(got.json().at("device_error"), "cudaErrorIllegalAddress");
  }
  EXPECT_EQ(rig.join(), shard_ending::device_lost);
}

TEST_P(Shard, NamesTheStageAtWhichALaunchIsRefusedAndServesOn) {
  shard_rig rig(wish());
  guest client(rig);
  rig.device.refuse(testing::manual_device::call::launch, "cudaErrorMemoryAllocation");
  client.submit(1);
  const raw_message got = client.next();
  EXPECT_EQ(got.header.code, status::failed);
  EXPECT_EQ(got.json().at("device_error"), "cudaErrorMemoryAllocation");
  EXPECT_EQ(got.json().at("stage"), "next");
  client.submit(2);
  EXPECT_EQ(client.next().header.code, status::ok);
}

TEST_P(Shard, EndsWhenItsDeviceFailsWhileItIsIdle) {
  shard_rig rig(wish());
  rig.device.lose("cudaErrorECCUncorrectable");
  EXPECT_EQ(rig.join(), shard_ending::device_lost);
}

TEST_P(Shard, TakesAHungDeviceForLost) {
  shard_wish some = held();
  some.hang_timeout = std::chrono::milliseconds{10};
  shard_rig rig(some);
  guest client(rig);
  client.submit(1);
  const raw_message got = client.next();
  EXPECT_EQ(got.header.code, status::device_failed);
  EXPECT_NE(got.json().at("device_error").get<std::string>().find("hangs"), std::string::npos);
  EXPECT_EQ(got.json().at("stage"), "");
  EXPECT_EQ(rig.join(), shard_ending::device_lost);
}

// Asio's descriptor watches and the busy loop meet here: a flood must not keep the shard from a stop.
TEST_P(Shard, StopsInTheMiddleOfAFlood) {
  shard_rig rig(wish());
  guest client(rig);
  for (int message = 0; message < 20000; ++message) {
    client.send_control(message_type::ping, 1);
  }
  rig.stop();
  EXPECT_EQ(rig.join(), shard_ending::drained);
}

// Everything that a client can get wrong, at random, between requests that are right.
TEST_P(Shard, OutlivesAnythingThatAClientSends) {
  shard_rig rig(wish());
  guest good(rig);
  guest bad(rig);
  std::mt19937_64 random(20260101);
  std::uint64_t answered = 0;
  for (std::uint64_t id = 1; id <= 2000; ++id) {
    submit_draft draft(random() % 64, 1 + static_cast<std::uint32_t>(random() % 9));
    std::vector<std::string> parts = draft.parts();
    for (std::uint64_t change = random() % 4; change > 0; --change) {
      std::string& part = parts[random() % parts.size()];
      switch (random() % 4) {
        case 0:
          part.resize(random() % (part.size() + 1));
          break;
        case 1:
          parts.resize(1 + random() % 5, std::string(random() % 40, 'x'));
          break;
        default:
          if (!part.empty()) {
            part[random() % std::min<std::size_t>(part.size(), 200)] = static_cast<char>(random());
          }
      }
    }
    bad.send(parts);
    if (id % 20 == 0) {
      const std::string payload = good.submit(id);
      ASSERT_EQ(good.next().parts.at(1), testing::next_of(payload));
      ++answered;
    }
  }
  const nlohmann::json counters = good.status();
  EXPECT_TRUE(counters.at("balanced").get<bool>());
  EXPECT_GE(counters.at("requests").at("results").get<std::uint64_t>(), answered);
  EXPECT_FALSE(counters.at("refused").empty());
}

INSTANTIATE_TEST_SUITE_P(Modes, Shard, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

class ShardStart : public ::testing::Test {
 protected:
  ShardStart() {
    how_.daemon.listen = {"tcp://127.0.0.1:*"};
    device_.let_run();
  }
  settings how_;
  testing::manual_device device_;
  std::vector<plan> plans_ = testing::hand_made_plans({{}});
  memory_budget memory_{std::size_t{1} << 32U};
};

TEST_F(ShardStart, ThrowsWhatFailedWhenAKernelCannotBeLaunched) {
  device_.refuse(testing::manual_device::call::launch, "cudaErrorNoKernelImageForDevice");
  EXPECT_THROW(shard(how_, device_, plans_, memory_), device_error);
}

TEST_F(ShardStart, ThrowsWhenItCannotListen) {
  const shard first(how_, device_, plans_, memory_);
  how_.daemon.listen = first.endpoints();
  EXPECT_THROW(shard(how_, device_, plans_, memory_), std::runtime_error);
}

TEST_F(ShardStart, LeavesEverySlotFreeAfterTheWarmUp) {
  shard made(how_, device_, plans_, memory_);
  const shard_report said = made.report();
  EXPECT_EQ(said.free_slots, said.slots);
  EXPECT_EQ(said.batches_in_flight, 0U);
  EXPECT_EQ(said.state, "ready");
}

}  // namespace
}  // namespace penstock
