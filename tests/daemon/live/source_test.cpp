#include "daemon/live/source.hpp"

#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/descriptors.hpp"
#include "daemon/live/source_set.hpp"
#include "daemon/net/router_socket.hpp"
#include "tests/client/scripted_daemon.hpp"
#include "tests/daemon/shard/shard_rig.hpp"

namespace penstock::live {
namespace {

using namespace std::chrono_literals;
using penstock::testing::guest;
using penstock::testing::shard_rig;
using wire::message_type;
using wire::status;

/// What a test has a reader do next.
struct feed {
  enum class kind : std::uint8_t { run, fail, end };

  kind what = kind::run;
  std::string bytes{};
  std::optional<std::int64_t> at{};
  std::string stream{};
};

/// Wires that a test writes to, for as many readers as a source makes.
class fed_wire {
 public:
  void put(feed next) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(next));
    wake_.signal();
  }
  [[nodiscard]] std::optional<feed> take() {
    const std::lock_guard lock(mutex_);
    wake_.clear();
    if (waiting_.empty()) {
      return std::nullopt;
    }
    feed next = std::move(waiting_.front());
    waiting_.pop_front();
    if (!waiting_.empty()) {
      wake_.signal();
    }
    return next;
  }
  [[nodiscard]] int descriptor() const noexcept { return wake_.descriptor(); }
  [[nodiscard]] reader_factory factory();

  std::atomic<int> refusals{0};  // readers that can't be made
  std::atomic<int> reads{0};

 private:
  std::mutex mutex_;
  std::deque<feed> waiting_;
  wake_event wake_;
};

class fed_reader final : public sample_reader {
 public:
  explicit fed_reader(fed_wire& wire) : wire_(wire) {}

  void descriptors(std::vector<pollfd>& wanted) const override { wanted.push_back({wire_.descriptor(), POLLIN, 0}); }
  read_progress read(sample_receiver& receiver, time_point /*now*/, time_point /*until*/) override {
    ++wire_.reads;
    const std::optional<feed> next = wire_.take();
    if (!next) {
      return read_progress::none;
    }
    if (next->what != feed::kind::run) {
      return next->what == feed::kind::fail ? read_progress::failed : read_progress::ended;
    }
    if (const auto stream = receiver.stream(next->stream)) {
      receiver.samples(*stream, {.bytes = std::as_bytes(std::span(next->bytes)), .at = next->at});
    }
    return read_progress::some;
  }
  std::string_view failure() const override { return "the wire is cut"; }

 private:
  fed_wire& wire_;
};

reader_factory fed_wire::factory() {
  return [this](const source_declaration&, double&) -> std::unique_ptr<sample_reader> {
    if (refusals > 0) {
      --refusals;
      throw std::runtime_error("no such host");
    }
    return std::make_unique<fed_reader>(*this);
  };
}

/// Waits for what other threads do; the test's own timeout ends it.
template <typename Predicate>
void wait_until(Predicate&& holds) {
  while (!holds()) {
    std::this_thread::sleep_for(1ms);
  }
}

/// A source of u8 that feeds the rig's only pipeline, frames of 16.
class SourceTest : public ::testing::Test {
 protected:
  source_declaration declared(const std::string& name = "north") {
    source_declaration made;
    made.name = name;
    made.type = source_type::udp;
    made.pipeline = "pipeline0";
    made.block = 32;
    made.input = {element_type::u8, {16}, false};
    made.dtype = element_type::u8;
    made.sample_bytes = 1;
    made.overrun = overrun_policy::block;
    made.queue = 1024;
    made.stall = 0ns;
    made.gap.policy = gap_policy::new_epoch;
    return made;
  }
  shard_endpoint endpoint(shard_rig& rig) { return {0, rig.inner_context(), router_socket::inner_endpoint}; }
  source_report now() {
    std::vector<source_report> all = board_.read(0);
    return all.empty() ? source_report{} : all.front();
  }
  void send(std::size_t bytes, std::optional<std::int64_t> at = {}, const std::string& stream = "") {
    wire_.put({feed::kind::run, std::string(bytes, '\1'), at, stream});
  }

  source_board board_;
  source_gates gates_;
  fed_wire wire_;
};

TEST_F(SourceTest, HandsItsSamplesToThePipelineAndTakesNoPlaceOfMaxClients) {
  shard_rig rig({.plans = {{.keeps_state = true}}, .max_clients = 1});
  guest outside(rig);
  {
    source north(declared(), endpoint(rig), board_, wire_.factory());
    send(100);
    send(28);
    wait_until([&] { return now().events.results == 4; });
    const source_report report = now();
    EXPECT_EQ(report.state, source_state::running);
    EXPECT_EQ(report.samples.delivered, 128U);
    EXPECT_TRUE(report.samples.balanced());
    EXPECT_EQ(report.streams, 1U);
    const nlohmann::json status = outside.status();
    EXPECT_EQ(status.at("clients"), 2);
    EXPECT_EQ(status.at("sessions"), 1);
    penstock::testing::raw_peer third(rig.endpoint());
    third.send_control(message_type::hello, 1, wire::encode(wire::hello{"third", "0"}));
    penstock::testing::expect_error(third.receive().value(), status::too_many_clients, 1);
  }
  EXPECT_TRUE(board_.read(0).empty());
}

TEST_F(SourceTest, SleepsWhileNothingComes) {
  shard_rig rig;
  source north(declared(), endpoint(rig), board_, wire_.factory());
  send(128);
  wait_until([&] { return now().events.results == 4; });
  const int before = wire_.reads;
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(wire_.reads - before, 20) << "it wakes to report, and for nothing else";
}

TEST_F(SourceTest, EndsWithItsFileOnceAllIsAnswered) {
  shard_rig rig;
  source north(declared(), endpoint(rig), board_, wire_.factory());
  send(40);
  wire_.put({feed::kind::end});
  wait_until([&] { return now().state == source_state::ended; });
  EXPECT_EQ(now().samples.delivered, 40U);
  EXPECT_EQ(now().events.filled, 8U) << "the last frame is whole";
  EXPECT_EQ(now().events.results, 2U);
}

TEST_F(SourceTest, OpensASessionForEachTopicAndEachEpoch) {
  shard_rig rig({.plans = {{.keeps_state = true}}});
  source_declaration wanted = declared();
  wanted.max_streams = 2;
  source north(wanted, endpoint(rig), board_, wire_.factory());
  send(32, 0, "a");
  send(32, 0, "b");
  send(32, 0, "c");
  send(32, 100, "a");  // a gap
  wait_until([&] { return now().events.results == 3; });
  EXPECT_EQ(now().streams, 2U);
  EXPECT_EQ(now().events.refused_streams, 1U);
  EXPECT_EQ(now().events.epochs, 1U);
  EXPECT_EQ(now().samples.network, 68U);
  EXPECT_TRUE(now().samples.balanced());
  guest outside(rig);
  wait_until([&] { return outside.status().at("sessions") == 2; });
}

// A topic may be any bytes: one whose session is refused would hold up all others.
TEST_F(SourceTest, NamesSessionsByAnyTopic) {
  shard_rig rig({.plans = {{.keeps_state = true}}});
  source_declaration wanted = declared(std::string(56, 'n') + "ö");
  source north(wanted, endpoint(rig), board_, wire_.factory());
  const std::vector<std::string> topics{"",
                                        std::string(64, '\xff'),
                                        std::string(70, '\xfe'),
                                        "a",
                                        "a/1",
                                        "b\n",
                                        "b\t",
                                        std::string(63, 'x') + "\xe2\x82\xac"};
  for (const std::string& topic : topics) {
    send(32, 0, topic);
    send(32, 100, topic);  // a gap: another epoch, whose number takes room
  }
  wait_until([&] { return now().events.results == 2 * topics.size(); });
  EXPECT_EQ(now().trouble, "");
  const nlohmann::json status = guest(rig).status();
  EXPECT_EQ(status.at("sessions"), topics.size());
}

TEST_F(SourceTest, SaysInEachRequestWhichSamplesItHas) {
  penstock::test::scripted_daemon daemon;
  source_declaration wanted = declared();
  wanted.pipeline = "double";
  wanted.block = 8;
  wanted.input = {element_type::u8, {4}, false};
  source north(wanted, {0, nullptr, daemon.url()}, board_, wire_.factory());
  daemon.greet();
  send(8, 100);
  send(10, 200);  // a gap, and a block that is not full
  wire_.put({feed::kind::end});
  const auto opened = [&](std::uint32_t number) {
    const penstock::test::received asked = daemon.await(message_type::open_session);
    daemon.opened(asked, number);
    return wire::decode_open_session(std::as_bytes(std::span(asked.parts.at(1))))->name;
  };
  const auto account_of_next = [&] {
    const penstock::test::received request = daemon.await(message_type::submit);
    wire::sample_account account;
    EXPECT_TRUE(wire::decode_account(std::as_bytes(std::span(request.parts.at(0))), request.header, account));
    daemon.result(request);
    return account;
  };
  EXPECT_EQ(opened(5), "north");
  wire::sample_account first;
  first.index = 100;
  first.flags = static_cast<std::uint8_t>(wire::sample_flag::index_known | wire::sample_flag::epoch_begins);
  EXPECT_EQ(account_of_next(), first);
  EXPECT_EQ(opened(6), "north/1");
  wire::sample_account second = first;
  second.index = 200;
  second.lost_before = 92;
  second.epoch = 1;
  EXPECT_EQ(account_of_next(), second);
  wire::sample_account third = second;
  third.index = 208;
  third.lost_before = 0;
  third.filled = 2;
  third.flags = static_cast<std::uint8_t>(wire::sample_flag::index_known | wire::sample_flag::filled);
  EXPECT_EQ(account_of_next(), third);
  wait_until([&] { return now().state == source_state::ended; });
}

TEST_F(SourceTest, MakesItsReaderAgainAfterAFailureAndTakesWhatComesForAnotherClock) {
  shard_rig rig;
  wire_.refusals = 2;
  source north(declared(), endpoint(rig), board_, wire_.factory());
  send(32, 500);
  wait_until([&] { return now().events.results == 1; });
  EXPECT_EQ(now().trouble, "");
  wire_.put({feed::kind::fail});
  wait_until([&] { return now().events.connections == 2; });
  EXPECT_NE(now().trouble, "") << "nothing came of the new reader yet";
  send(32, 0);
  wait_until([&] { return now().events.results == 2; });
  EXPECT_EQ(now().trouble, "");
  EXPECT_EQ(now().events.epochs, 1U);
  EXPECT_EQ(now().samples.expected, 64U);
}

TEST_F(SourceTest, CountsAStallOnceAndGoesOn) {
  shard_rig rig;
  source_declaration wanted = declared();
  wanted.stall = 20ms;
  source north(wanted, endpoint(rig), board_, wire_.factory());
  wait_until([&] { return now().state == source_state::stalled; });
  EXPECT_EQ(now().events.stalls, 1U);
  send(32);
  wait_until([&] { return now().events.results == 1; });
  wait_until([&] { return now().events.stalls == 2; });
}

TEST_F(SourceTest, WaitsForThePipelineOrDropsAsItsPolicySays) {
  shard_rig rig({.held = true});  // the device does nothing yet
  for (const overrun_policy policy :
       {overrun_policy::block, overrun_policy::drop_oldest, overrun_policy::drop_newest}) {
    source_declaration wanted = declared();
    wanted.overrun = policy;
    wanted.queue = 128;
    source_board board;
    fed_wire wire;
    source north(wanted, endpoint(rig), board, wire.factory());
    for (int each = 0; each < 100; ++each) {
      wire.put({feed::kind::run, std::string(32, '\1'), each * 32, ""});
    }
    const auto report = [&] {
      const std::vector<source_report> all = board.read(0);
      return all.empty() ? source_report{} : all.front();
    };
    if (policy == overrun_policy::block) {
      wait_until([&] { return report().events.blocks > 0; });
      EXPECT_EQ(report().samples.overrun, 0U);
    } else {
      wait_until([&] { return report().samples.expected == 3200; });
      EXPECT_GT(report().samples.overrun, 0U);
    }
    EXPECT_TRUE(report().samples.balanced());
    north.stop();
  }
  rig.device.let_run();
}

TEST_F(SourceTest, ChangesWithTheConfigurationAndLeavesWhatIsEqual) {
  shard_rig rig;
  {
    memory_budget memory(std::size_t{1} << 30U);
    source_set all({endpoint(rig)}, board_, gates_, memory, wire_.factory());
    all.adopt({declared("one"), declared("two")});
    wait_until([&] { return board_.read(0).size() == 2; });
    EXPECT_EQ(memory.used(), 2 * declared("one").memory_bytes());
    send(32);
    source_declaration other = declared("two");
    other.block = 64;
    all.adopt({declared("one"), other, declared("three")});
    wait_until([&] { return board_.read(0).size() == 3; });
    std::set<std::string> names;  // each thread takes its place when it runs
    for (const source_report& each : board_.read(0)) {
      names.insert(each.name);
    }
    EXPECT_EQ(names, (std::set<std::string>{"one", "two", "three"}));
    all.adopt({declared("three")});
    wait_until([&] { return board_.read(0).size() == 1; });
    EXPECT_EQ(board_.read(0).front().name, "three");
    EXPECT_EQ(memory.used(), declared("three").memory_bytes());
    all.stop();
    wait_until([&] { return all.are_over(); });
  }
  EXPECT_TRUE(board_.read(0).empty());
}

}  // namespace
}  // namespace penstock::live
