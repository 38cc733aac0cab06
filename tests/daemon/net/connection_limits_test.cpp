#include "daemon/net/connection_limits.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using namespace std::string_literals;

constexpr connection_rates rates{.each_per_second = 100, .each_at_once = 20, .all_per_second = 200, .all_at_once = 50};
constexpr connection_rate::time_point begin{std::chrono::hours{1}};

int admitted(connection_rate& by, std::uint64_t source, int tries, connection_rate::time_point now = begin) {
  int taken = 0;
  for (int each = 0; each < tries; ++each) {
    taken += by.admits(source, now) ? 1 : 0;
  }
  return taken;
}

TEST(ConnectionRate, TakesSoManyAtOnceOfASource) {
  connection_rate rate(rates);
  EXPECT_EQ(admitted(rate, 1, 1000), 20);
  EXPECT_EQ(admitted(rate, 2, 1000), 20);
}

TEST(ConnectionRate, TakesThoseOfASourceAtItsRateFromThenOn) {
  connection_rate rate(rates);
  int taken = 0;
  for (milliseconds at{0}; at < seconds{10}; at += milliseconds{1}) {
    taken += admitted(rate, 1, 5, begin + at);
  }
  EXPECT_NEAR(taken, 20 + 1000, 2);
}

TEST(ConnectionRate, BoundsAllSourcesTogether) {
  connection_rate rate(rates);
  int taken = 0;
  for (std::uint64_t source = 0; source < 100; ++source) {
    taken += admitted(rate, source, 10);
  }
  EXPECT_EQ(taken, 50);
  EXPECT_EQ(admitted(rate, 1000, 1000, begin + milliseconds{50}), 10);
}

TEST(ConnectionRate, OneThatComesTooOftenTakesNothingFromTheOthers) {
  connection_rate rate(rates);
  EXPECT_EQ(admitted(rate, 1, 100000), 20);
  EXPECT_EQ(admitted(rate, 2, 20), 20);
}

TEST(ConnectionRate, ForgetsABurstInTime) {
  connection_rate rate(rates);
  ASSERT_EQ(admitted(rate, 1, 1000), 20);
  EXPECT_EQ(admitted(rate, 1, 1000, begin + seconds{1}), 20);
}

TEST(ConnectionRate, LetsAsManyComeAtOnceAsAreExpected) {
  connection_rate rate(rates);
  rate.set_at_once(30, 100);
  EXPECT_EQ(admitted(rate, 1, 1000), 30);
}

constexpr std::int64_t ample = std::int64_t{1} << 30U;

/// A connection whose descriptor no file of this process has.
class metered {
 public:
  explicit metered(int number = 0) : descriptor_(60000 + number) { begin_metering(descriptor_); }
  metered(const metered&) = delete;
  metered& operator=(const metered&) = delete;
  ~metered() { end_metering(descriptor_); }

  [[nodiscard]] bool takes(const std::string& bytes) const {
    return meter_received(descriptor_, std::as_bytes(std::span(bytes)));
  }
  /// A part of so many bytes, more of which are to come.
  [[nodiscard]] bool takes(std::int64_t bytes) const {
    std::string frame = "\x03"s;
    for (int shift = 56; shift >= 0; shift -= 8) {
      frame += static_cast<char>(bytes >> shift & 0xFF);
    }
    return takes(frame + std::string(static_cast<std::size_t>(bytes), '\0'));
  }
  /// The greeting, and two frames of a handshake.
  [[nodiscard]] bool greets() const {
    return takes("\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL"s + std::string(48, '\0') + "\x04\x01R\0\x01x"s);
  }
  void hears(std::size_t bytes, std::size_t parts = 1) const { meter_heard(descriptor_, bytes, parts); }
  void becomes_a_client() const { meter_client(name()); }
  [[nodiscard]] connection_name name() const { return connection_at(descriptor_); }

 private:
  int descriptor_;
};

TEST(ConnectionMeter, CutsAStrangerThatIsTooFarAhead) {
  const metered one;
  ASSERT_TRUE(one.greets());
  EXPECT_TRUE(one.takes(stranger_bytes / 2));
  EXPECT_FALSE(one.takes(stranger_bytes / 2));
}

TEST(ConnectionMeter, CountsWhatPartsCostBesideTheirBytes) {
  const metered one;
  ASSERT_TRUE(one.greets());
  std::string parts;
  for (std::int64_t each = 0; each < stranger_bytes / frame_overhead; ++each) {
    parts += "\x01\x01x"s;
  }
  EXPECT_FALSE(one.takes(parts));
}

TEST(ConnectionMeter, LetsAStrangerSendOneRequest) {
  set_request_bytes(4 * stranger_bytes);
  const metered one;
  ASSERT_TRUE(one.greets());
  EXPECT_TRUE(one.takes(4 * stranger_bytes));
  EXPECT_FALSE(one.takes(stranger_bytes));
  set_request_bytes(0);
}

TEST(ConnectionMeter, CutsAHandshakeWithALargeFrame) {
  const metered one;
  ASSERT_TRUE(one.takes("\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01"s + std::string(52, '\0') + "\x04\x01R"s));
  EXPECT_FALSE(one.takes("\x02\0\0\0\0\x01\0\0\0"s));
}

TEST(ConnectionMeter, LetsAStrangerSendAsMuchAsIsHeard) {
  const metered one;
  ASSERT_TRUE(one.greets());
  for (int each = 0; each < 100; ++each) {
    ASSERT_TRUE(one.takes(stranger_bytes / 2));
    one.hears(stranger_bytes / 2);
  }
}

TEST(ConnectionMeter, GivesNoCreditForWhatIsHeardBeyondWhatCame) {
  const metered one;
  ASSERT_TRUE(one.greets());
  one.hears(stranger_bytes * 10, 1000);
  EXPECT_FALSE(one.takes(stranger_bytes + 1));
}

TEST(ConnectionMeter, LetsAClientGoFurtherAhead) {
  set_client_bytes(2 * stranger_bytes);
  const metered one;
  ASSERT_TRUE(one.greets());
  one.becomes_a_client();
  EXPECT_TRUE(one.takes(stranger_bytes + 1));
  EXPECT_FALSE(one.takes(stranger_bytes));
  set_client_bytes(ample);
}

TEST(ConnectionMeter, KnowsAConnectionFromTheNextOneOfItsDescriptor) {
  set_client_bytes(ample);
  connection_name first;
  {
    const metered one;
    first = one.name();
    EXPECT_FALSE(has_ended(first));
  }
  EXPECT_TRUE(has_ended(first));
  const metered next;
  ASSERT_TRUE(next.greets());
  EXPECT_TRUE(has_ended(first));
  EXPECT_FALSE(has_ended(next.name()));
  meter_client(first);
  EXPECT_TRUE(next.takes(stranger_bytes / 2));
  EXPECT_FALSE(next.takes(stranger_bytes));
}

TEST(ConnectionMeter, BoundsAllStrangersTogether) {
  std::vector<std::unique_ptr<metered>> all;
  const auto most = static_cast<int>(strangers_bytes / (stranger_bytes / 2));
  for (int each = 0; each < most; ++each) {
    all.push_back(std::make_unique<metered>(each));
    ASSERT_TRUE(all.back()->greets());
    (void)all.back()->takes(stranger_bytes / 2);
  }
  metered one_more(most);
  EXPECT_TRUE(one_more.greets());
  EXPECT_FALSE(one_more.takes(greeting_bytes));
  all.clear();
  const metered later(most + 1);
  EXPECT_TRUE(later.greets());
  EXPECT_TRUE(later.takes(greeting_bytes));
}

TEST(ConnectionMeter, CutsARoutingIdThatLibzmqMightGive) {
  const std::string before =
      "\x04\x29\x05READY\x0bSocket-Type\0\0\0\x06"
      "DEALER\x08Identity\0\0\0\x05"s;
  for (std::size_t cut = 0; cut < before.size(); ++cut) {
    const metered one;
    ASSERT_TRUE(one.greets());
    ASSERT_TRUE(one.takes(before.substr(0, cut)));
    ASSERT_TRUE(one.takes(before.substr(cut)));
    EXPECT_FALSE(one.takes("\0\1\2\3\4"s));
  }
  const metered other;
  ASSERT_TRUE(other.greets());
  EXPECT_TRUE(other.takes(before + "\1\2\3\4\5"));
}

TEST(ConnectionMeter, CutsOldVersionsOfZmtp) {
  EXPECT_FALSE(metered().takes("\x01\0"s));
  EXPECT_FALSE(metered().takes("\xff\0\0\0\0\0\0\0\x01\x7f\x01"s));
}

TEST(ConnectionMeter, CountsWhatAConnectionLetGoOf) {
  const std::uint64_t before = bytes_let_go();
  {
    const metered one;
    ASSERT_TRUE(one.greets());
    ASSERT_TRUE(one.takes(1000));
  }
  EXPECT_GE(bytes_let_go() - before, 1000U);
  EXPECT_LE(bytes_let_go() - before, 2000U);
}

TEST(ConnectionMeter, LeavesOtherDescriptorsAlone) {
  EXPECT_FALSE(is_metered(59999));
  EXPECT_FALSE(end_metering(59999));
  EXPECT_TRUE(meter_received(59999, {}));
  meter_heard(-1, 1, 1);
  meter_client(connection_at(-1));
  EXPECT_FALSE(has_ended(connection_at(-1)));
}

}  // namespace
}  // namespace penstock
