#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/egress/egress_rig.hpp"

namespace penstock {
namespace {

using testing::egress_rig;

// A client that does not read, up to the point where ZeroMQ takes nothing more for it and `waiting` replies are queued.
class SlowClient : public ::testing::Test {
 protected:
  static client_settings limits() {
    client_settings some;
    some.credit_requests = 16;
    some.reply_queue_bytes = 4 * (egress_rig::large_frame + 1024);
    some.reply_cache_bytes = 0;
    return some;
  }

  SlowClient() {
    while (rig_.out.idle() && sent_ < 5000) {
      send();
    }
  }
  void send() {
    ++sent_;
    rig_.result(slow_, sent_, 1, static_cast<char>(sent_));
  }
  void expect_reply(std::uint64_t id) {
    const egress_rig::message got = rig_.receive("slow");
    ASSERT_EQ(got.header.request_id, id) << "out of order, or lost";
    ASSERT_EQ(got.parts[0], std::string(egress_rig::large_frame, static_cast<char>(id)));
  }

  egress_rig rig_{limits(), 8};
  client_record& slow_{rig_.connect("slow", 1)};
  std::uint64_t sent_ = 0;
};

TEST_F(SlowClient, IsQueuedForOnceZeroMqIsFull) {
  EXPECT_FALSE(rig_.out.idle());
  EXPECT_EQ(rig_.counters.replies_sent, sent_ - 1);
  EXPECT_EQ(rig_.counters.replies_dropped, 0U);
}

TEST_F(SlowClient, LosesOnlyWhatItsQueueCannotHoldAndNobodyElseLosesAnything) {
  client_record& other = rig_.connect("other");
  for (int more = 0; more < 10; ++more) {
    send();
  }
  EXPECT_EQ(rig_.counters.replies_dropped, 7U) << "4 fit into the queue, one of them was there before";
  for (std::uint64_t id = 1; id <= 20; ++id) {
    rig_.result(other, id, 1);
    EXPECT_EQ(rig_.receive("other").header.request_id, id);
  }
  EXPECT_EQ(rig_.counters.replies_dropped, 7U);
}

TEST_F(SlowClient, LeavesSlotsForTheOthers) {
  for (int more = 0; more < 10; ++more) {
    send();
  }
  rig_.slots.collect();
  EXPECT_GE(rig_.slots.free(), 3U) << "lent are at most as many as leave a quarter and one free";
}

TEST_F(SlowClient, GetsEverythingInOrderOnceItReads) {
  send();
  send();
  std::uint64_t got = 0;
  while (got < sent_) {
    expect_reply(++got);
    rig_.out.flush();
    while (got == sent_ - 3 && !rig_.out.idle()) {
      rig_.wait_for_router();
      rig_.out.flush();
    }
  }
  EXPECT_TRUE(rig_.out.idle());
  EXPECT_EQ(rig_.counters.replies_sent, sent_);
  EXPECT_TRUE(rig_.wait_for_free(8));
}

TEST_F(SlowClient, IsAnsweredBehindItsQueue) {
  rig_.out.control("slow", &slow_, testing::pong_header(1000000), "");
  std::uint64_t got = 0;
  while (got < sent_) {
    expect_reply(++got);
    rig_.out.flush();
    if (got == sent_ - 1) {
      while (!rig_.out.idle()) {
        rig_.wait_for_router();
        rig_.out.flush();
      }
    }
  }
  EXPECT_EQ(rig_.receive("slow").header.request_id, 1000000U);
}

TEST_F(SlowClient, HoldsNoSlotOnceItIsForgottenAndItsConnectionClosed) {
  send();
  const std::uint64_t waiting = sent_ - rig_.counters.replies_sent;
  rig_.out.forget(slow_);
  EXPECT_TRUE(rig_.out.idle());
  EXPECT_EQ(rig_.counters.replies_undeliverable, waiting);
  rig_.vanish("slow");
  for (int wait = 0; wait < 2000 && rig_.slots.free() < 8; ++wait) {
    rig_.wait_for_router();
    rig_.slots.collect();
  }
  EXPECT_EQ(rig_.slots.free(), 8U);
}

TEST_F(SlowClient, IsCountedUndeliverableWhenItVanishesWithRepliesWaiting) {
  rig_.vanish("slow");
  while (!rig_.out.idle()) {
    rig_.wait_for_router();
    rig_.out.flush();
  }
  EXPECT_GE(rig_.counters.replies_undeliverable, 1U);
  EXPECT_EQ(rig_.counters.replies_sent + rig_.counters.replies_undeliverable, sent_);
}

}  // namespace
}  // namespace penstock
