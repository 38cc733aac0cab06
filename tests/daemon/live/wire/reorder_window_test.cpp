#include "daemon/live/wire/reorder_window.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::live {
namespace {

using testing::ElementsAre;
using time_point = reorder_window::time_point;
using std::chrono::milliseconds;

// Writes down what comes out: "5", "6r" for a restored packet, "lost 7+2", "late 7", "restart".
class written_sink : public packet_sink {
 public:
  void in_order(const numbered_packet& packet, bool restored) override {
    events.push_back(std::to_string(packet.number) + (restored ? "r" : ""));
    EXPECT_EQ(packet.samples.size(), sizeof(std::uint64_t));
    std::uint64_t said = 0;
    std::memcpy(&said, packet.samples.data(), sizeof said);
    EXPECT_EQ(said, packet.number);
    EXPECT_EQ(packet.time_ns, static_cast<std::int64_t>(packet.number) * 10);
  }
  void lost(std::uint64_t first, std::uint64_t packets) override {
    events.push_back("lost " + std::to_string(first) + "+" + std::to_string(packets));
  }
  void late(const numbered_packet& packet) override { events.push_back("late " + std::to_string(packet.number)); }
  void restarted() override { events.emplace_back("restart"); }

  std::vector<std::string> events;
};

class ReorderWindow : public ::testing::Test {
 protected:
  void take(std::initializer_list<std::uint64_t> numbers) {
    for (const std::uint64_t number : numbers) {
      window_.take({number, std::as_bytes(std::span(&number, 1)), static_cast<std::int64_t>(number) * 10, 0}, now_,
                   sink_);
    }
  }
  std::vector<std::string> events() { return std::exchange(sink_.events, {}); }

  written_sink sink_;
  reorder_window window_{{.packets = 4, .max_wait = milliseconds{2}, .packet_bytes = 8, .max_jump = 100}};
  time_point now_{};
};

TEST_F(ReorderWindow, PassesPacketsInOrder) {
  EXPECT_FALSE(window_.passes(7)) << "the first one is taken";
  take({7});
  EXPECT_TRUE(window_.passes(8));
  EXPECT_FALSE(window_.passes(10));
  EXPECT_FALSE(window_.passes(8));
  take({9});
  EXPECT_THAT(events(), ElementsAre("7", "9"));
  EXPECT_EQ(window_.account(), (reorder_account{.delivered = 3}));
}

TEST_F(ReorderWindow, RestoresTheOrder) {
  take({0, 2, 3, 1, 5, 4});
  EXPECT_THAT(events(), ElementsAre("0", "1", "2r", "3r", "4", "5r"));
  EXPECT_EQ(window_.account(), (reorder_account{.delivered = 6, .restored = 3}));
  EXPECT_EQ(window_.wanted_at(), time_point::max());
}

TEST_F(ReorderWindow, RestoresTheOrderOfWhatIsBehindALoss) {
  take({0, 4, 2, 3});
  window_.flush(sink_);
  EXPECT_THAT(events(), ElementsAre("0", "lost 1+1", "2", "3", "4r"));
}

TEST_F(ReorderWindow, GivesUpWhatIsAWholeWindowBehind) {
  take({0, 2, 3, 4});
  EXPECT_THAT(events(), ElementsAre("0"));
  EXPECT_FALSE(window_.passes(1)) << "others are held";
  take({5});
  EXPECT_THAT(events(), ElementsAre("lost 1+1", "2", "3", "4", "5"));
}

TEST_F(ReorderWindow, GivesUpAfterTheWait) {
  take({0, 2});
  now_ += milliseconds{1};
  take({4});
  EXPECT_EQ(window_.wanted_at(), time_point{} + milliseconds{2});
  window_.expire(now_, sink_);
  EXPECT_THAT(events(), ElementsAre("0"));
  now_ += milliseconds{1};
  window_.expire(now_, sink_);
  EXPECT_THAT(events(), ElementsAre("lost 1+1", "2"));
  EXPECT_EQ(window_.wanted_at(), time_point{} + milliseconds{3});
  now_ += milliseconds{1};
  window_.expire(now_, sink_);
  EXPECT_THAT(events(), ElementsAre("lost 3+1", "4"));
}

TEST_F(ReorderWindow, CountsALatePacketOnceAndNotAsLost) {
  take({0, 9, 3, 3, 3});
  EXPECT_THAT(events(), ElementsAre("0", "lost 1+5", "late 3"));
  window_.flush(sink_);
  EXPECT_THAT(events(), ElementsAre("lost 6+3", "9"));
  EXPECT_EQ(window_.account(), (reorder_account{.delivered = 2, .lost = 7, .late = 1, .duplicates = 2}));
}

TEST_F(ReorderWindow, DropsDuplicatesOfWhatIsDeliveredOrHeld) {
  take({0, 0, 2, 2, 1, 2});
  EXPECT_THAT(events(), ElementsAre("0", "1", "2r"));
  EXPECT_EQ(window_.account().duplicates, 3U);
}

TEST_F(ReorderWindow, BelievesAFarNumberOnlyIfTheNextFollows) {
  take({0, 5000, 1, 7000, 2});
  EXPECT_THAT(events(), ElementsAre("0", "1", "2"));
  take({9000, 9001, 9002});
  EXPECT_THAT(events(), ElementsAre("restart", "9000", "9001", "9002"));
  EXPECT_EQ(window_.account().restarts, 1U);
  EXPECT_EQ(window_.account().lost, 0U);
  EXPECT_EQ(window_.account().strays, 2U);
}

TEST_F(ReorderWindow, SeesASenderThatBeganAgainNotFarBack) {
  take({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  (void)events();
  take({0, 1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(events(), testing::IsEmpty());
  take({9, 10, 11});
  EXPECT_THAT(events(), ElementsAre("restart", "9", "10", "11"));
}

TEST_F(ReorderWindow, IgnoresWhatCameBeforeTheFirst) {
  take({7, 5, 6, 8});
  EXPECT_THAT(events(), ElementsAre("7", "8"));
  EXPECT_EQ(window_.account().strays, 2U);
}

TEST_F(ReorderWindow, GoesBeyondTheLastNumber) {
  const std::uint64_t last = ~std::uint64_t{0};
  take({last - 1, 0, last, 1});
  EXPECT_EQ(events().size(), 4U);
  EXPECT_EQ(window_.account(), (reorder_account{.delivered = 4, .restored = 1}));
}

TEST_F(ReorderWindow, RefusesAWindowThatIsNoPowerOfTwo) {
  EXPECT_THROW(reorder_window({.packets = 3}), std::invalid_argument);
  EXPECT_THROW(reorder_window({.packets = 0}), std::invalid_argument);
}

// -- a lossy channel
// ---------------------------------------------------------------------------------------------------

// What came out, and the same again by the plainest program that does it.
class balanced_sink : public packet_sink {
 public:
  void in_order(const numbered_packet& packet, bool is_restored) override {
    EXPECT_EQ(packet.number, next) << "each number, in order, once";
    std::uint64_t said = 0;
    std::memcpy(&said, packet.samples.data(), sizeof said);
    bad += static_cast<std::uint64_t>(said != packet.number * 3);
    ++delivered;
    EXPECT_EQ(is_restored, came[packet.number] < latest) << "one of a smaller number came after it";
    latest = std::max(latest, came[packet.number]);
    restored += static_cast<std::uint64_t>(is_restored);
    next = packet.number + 1;
  }
  void lost(std::uint64_t first, std::uint64_t packets) override {
    EXPECT_EQ(first, next);
    next = first + packets;
    given_up += packets;
  }
  void late(const numbered_packet& packet) override {
    EXPECT_LT(packet.number, next);
    ++came_late;
  }
  void restarted() override { ADD_FAILURE() << "nobody began again"; }

  std::vector<std::uint64_t> came;  // of each number: the first arrival, 0 for none
  std::uint64_t latest = 0;
  std::uint64_t next = 0;
  std::uint64_t delivered = 0;
  std::uint64_t restored = 0;
  std::uint64_t given_up = 0;
  std::uint64_t came_late = 0;
  std::uint64_t bad = 0;
};

// Drops, repeats and delays packets. The seed makes it the same again.
class lossy_channel {
 public:
  explicit lossy_channel(std::uint64_t seed) : random_(seed) {}

  // Sends the packet; what arrives meanwhile goes to `arrived`.
  template <class Arrived>
  void send(std::uint64_t number, Arrived arrived) {
    const std::size_t copies = chance(0.01) ? 0 : chance(0.01) ? 2 : 1;
    dropped += static_cast<std::uint64_t>(copies == 0);
    for (std::size_t copy = 0; copy < copies; ++copy) {
      const std::uint64_t delay = chance(0.05) ? random_() % 40 : chance(0.001) ? random_() % 400 : 0;
      under_way_.push({number + delay, order_++, number});
    }
    while (!under_way_.empty() && under_way_.top().due <= number) {
      const std::uint64_t each = under_way_.top().number;
      under_way_.pop();
      arrived(each);
    }
  }
  template <class Arrived>
  void finish(Arrived arrived) {
    for (; !under_way_.empty(); under_way_.pop()) {
      arrived(under_way_.top().number);
    }
  }

  std::uint64_t dropped = 0;

 private:
  struct packet {
    std::uint64_t due, order, number;
    bool operator>(const packet& other) const { return due != other.due ? due > other.due : order > other.order; }
  };
  bool chance(double probability) { return std::uniform_real_distribution<>()(random_) < probability; }

  std::mt19937_64 random_;
  std::priority_queue<packet, std::vector<packet>, std::greater<>> under_way_;
  std::uint64_t order_ = 0;
};

TEST(ReorderWindowAccount, BalancesExactlyOverALossyChannel) {
  const char* const asked = std::getenv("PENSTOCK_PACKETS");
  const std::uint64_t packets = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 1'000'000;
  const char* const said = std::getenv("PENSTOCK_SEED");
  const std::uint64_t seed = said != nullptr ? std::strtoull(said, nullptr, 10) : std::random_device{}();
  std::cout << packets << " packets (PENSTOCK_PACKETS); seed " << seed << " (PENSTOCK_SEED repeats it)" << std::endl;
  constexpr std::uint64_t window_packets = 64;
  reorder_window window({.packets = window_packets, .max_wait = std::chrono::hours{1}, .packet_bytes = 8});
  balanced_sink sink;
  lossy_channel channel(seed);

  // By definition: a packet is late if, when it comes first, one has come that is a whole window ahead of it.
  sink.came.resize(packets);
  std::uint64_t highest = 0;
  std::uint64_t arrivals = 0;
  std::uint64_t distinct = 0;
  std::uint64_t late = 0;
  const auto arrived = [&](std::uint64_t number) {
    ++arrivals;
    if (sink.came[number] == 0) {
      sink.came[number] = arrivals;
      ++distinct;
      late += static_cast<std::uint64_t>(number + window_packets <= highest);
    }
    highest = std::max(highest, number);
    const std::uint64_t text = number * 3;
    if (window.passes(number)) {
      sink.in_order({number, std::as_bytes(std::span(&text, 1)), 0, 0}, false);
    } else {
      window.take({number, std::as_bytes(std::span(&text, 1)), 0, 0}, {}, sink);
    }
  };
  arrived(0);
  for (std::uint64_t number = 1; number + 1 < packets; ++number) {
    channel.send(number, arrived);
  }
  channel.finish(arrived);
  arrived(packets - 1);
  window.flush(sink);

  const reorder_account& account = window.account();
  EXPECT_EQ(account.lost, channel.dropped);
  EXPECT_EQ(account.late, late);
  EXPECT_EQ(account.duplicates, arrivals - distinct);
  EXPECT_EQ(account.delivered, distinct - late);
  EXPECT_EQ(account.delivered + account.lost + account.late, packets);
  EXPECT_EQ(account.strays, 0U);
  EXPECT_EQ(account.restarts, 0U);
  EXPECT_EQ(sink.delivered, account.delivered);
  EXPECT_EQ(sink.restored, account.restored);
  EXPECT_EQ(sink.given_up, account.lost + account.late);
  EXPECT_EQ(sink.came_late, account.late);
  EXPECT_EQ(sink.next, packets);
  EXPECT_EQ(sink.bad, 0U);
  EXPECT_GT(account.late, 0U) << "the channel is bad enough to show everything";
  EXPECT_GT(account.restored, 0U);
}

}  // namespace
}  // namespace penstock::live
