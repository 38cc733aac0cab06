#include "daemon/service/systemd.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/start.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using testing::start;

/// A socket that stands where systemd's would.
class manager_socket {
 public:
  manager_socket() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_.path() / "notify";
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::bind(socket_, static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof(address)) != 0) {
      throw std::runtime_error("can't bind " + path);
    }
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~manager_socket() {
    ::unsetenv("NOTIFY_SOCKET");
    ::unsetenv("WATCHDOG_USEC");
    ::unsetenv("WATCHDOG_PID");
    ::close(socket_);
  }
  manager_socket(const manager_socket&) = delete;
  manager_socket& operator=(const manager_socket&) = delete;

  /// The next message that came; "" when none did.
  std::string heard() {
    std::array<char, 256> text{};
    const ssize_t length = ::recv(socket_, text.data(), text.size(), 0);
    return length < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(length));
  }

 private:
  testing::temporary_folder folder_;
  int socket_;
};

TEST(ServiceManager, HearsThatTheDaemonIsReady) {
  manager_socket systemd;
  service_manager manager;
  EXPECT_TRUE(manager.present());
  manager.ready();
  EXPECT_EQ(systemd.heard(), "READY=1");
}

TEST(ServiceManager, HearsWhenAReloadBegan) {
  manager_socket systemd;
  service_manager manager;
  timespec before{};
  ::clock_gettime(CLOCK_MONOTONIC, &before);
  manager.reloading();
  const std::string heard = systemd.heard();
  ASSERT_THAT(heard, MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
  const auto then = std::stoll(heard.substr(heard.rfind('=') + 1));
  const auto at_least = before.tv_sec * 1'000'000LL + before.tv_nsec / 1000;
  EXPECT_GE(then, at_least);
  EXPECT_LT(then, at_least + 60'000'000);
}

TEST(ServiceManager, HearsTheStatusLine) {
  manager_socket systemd;
  service_manager manager;
  manager.status("serving 1 pipeline");
  EXPECT_EQ(systemd.heard(), "STATUS=serving 1 pipeline");
}

TEST(ServiceManager, HearsThatTheDaemonStopsAndNeedsTime) {
  manager_socket systemd;
  service_manager manager;
  manager.stopping();
  EXPECT_EQ(systemd.heard(), "STOPPING=1\nSTATUS=draining");
  manager.extend_timeout(std::chrono::seconds{10});
  EXPECT_EQ(systemd.heard(), "EXTEND_TIMEOUT_USEC=10000000");
}

TEST(ServiceManager, SaysHowLongTheWatchdogWaitsAndHidesItFromOthers) {
  manager_socket systemd;
  ::setenv("WATCHDOG_USEC", "2500000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  service_manager manager;
  EXPECT_EQ(manager.watchdog_timeout(), microseconds{2'500'000});
  EXPECT_EQ(std::getenv("WATCHDOG_USEC"), nullptr);
  manager.alive();
  EXPECT_EQ(systemd.heard(), "WATCHDOG=1");
}

TEST(ServiceManager, KnowsNoWatchdogThatIsMeantForAnotherProcess) {
  manager_socket systemd;
  ::setenv("WATCHDOG_USEC", "2500000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(service_manager().watchdog_timeout(), std::nullopt);
}

TEST(ServiceManager, IsToldNothingWhereThereIsNone) {
  manager_socket systemd;
  ::unsetenv("NOTIFY_SOCKET");
  service_manager manager;
  EXPECT_FALSE(manager.present());
  manager.ready();
  manager.alive();
  EXPECT_THAT(systemd.heard(), IsEmpty());
}

constexpr seconds hang_timeout{30};

shard_sign answered(std::chrono::nanoseconds standing_still) {
  return {.ended = false, .pulse = shard_pulse{.standing_still = standing_still}};
}

const shard_sign silent{.ended = false, .pulse = std::nullopt};
const shard_sign ended{.ended = true, .pulse = std::nullopt};

std::string complaint_about(const std::vector<shard_sign>& shards) {
  return watchdog(hang_timeout).complaint(shards);
}

TEST(Watchdog, IsContentWithShardsThatHaveNothingToDo) {
  EXPECT_THAT(complaint_about({answered(seconds{0}), answered(seconds{0})}), IsEmpty());
}

TEST(Watchdog, LetsABatchTakeAsLongAsTheConfigurationDoes) {
  EXPECT_THAT(complaint_about({answered(seconds{2})}), IsEmpty());
  EXPECT_THAT(complaint_about({answered(hang_timeout)}), IsEmpty());
}

TEST(Watchdog, LeavesTheShardTimeToFindTheHungBatchItself) {
  EXPECT_THAT(complaint_about({answered(hang_timeout + watchdog::margin)}), IsEmpty());
}

TEST(Watchdog, NamesTheShardWhoseDeviceFinishesNothing) {
  const shard_sign stuck = answered(hang_timeout + watchdog::margin + milliseconds{1});
  EXPECT_THAT(complaint_about({answered(seconds{0}), stuck}), HasSubstr("device of shard 1 has finished no batch"));
}

TEST(Watchdog, NamesTheShardThatDoesNotAnswer) {
  EXPECT_EQ(complaint_about({answered(seconds{0}), answered(seconds{0}), silent}), "shard 2 does not answer");
}

TEST(Watchdog, ExpectsNothingOfAShardThatHasEnded) {
  EXPECT_THAT(complaint_about({ended, answered(seconds{1})}), IsEmpty());
}

TEST(Watchdog, SeesTheSilentShardBesideOneThatHasEnded) {
  EXPECT_EQ(complaint_about({ended, silent}), "shard 1 does not answer");
}

shard_sign said(shard_pulse pulse) {
  return {.ended = false, .pulse = pulse};
}

TEST(StatusLine, SaysTheRateOfTheTimeSinceTheLastLine) {
  status_line line(start);
  EXPECT_EQ(line.write(start + seconds{5}, {said({.results = 50, .clients = 1, .pipelines = 12})}, false),
            "serving 12 pipelines: 10 results/s, 1 client, 1 shard");
  EXPECT_EQ(line.write(start + seconds{7}, {said({.results = 30518, .clients = 3, .pipelines = 12})}, false),
            "serving 12 pipelines: 15 234 results/s, 3 clients, 1 shard");
}

TEST(StatusLine, AddsTheShardsUp) {
  status_line line(start);
  EXPECT_EQ(line.write(start + seconds{1},
                       {said({.results = 999, .clients = 2, .pipelines = 1}),
                        said({.results = 1, .clients = 0, .pipelines = 1})},
                       false),
            "serving 1 pipeline: 1 000 results/s, 2 clients, 2 shards");
}

TEST(StatusLine, GroupsMillions) {
  status_line line(start);
  EXPECT_EQ(line.write(start + seconds{1}, {said({.results = 1234567, .pipelines = 1})}, false),
            "serving 1 pipeline: 1 234 567 results/s, 0 clients, 1 shard");
}

TEST(StatusLine, CountsNothingInNoTime) {
  status_line line(start);
  EXPECT_EQ(line.write(start, {said({.results = 7, .pipelines = 2})}, false),
            "serving 2 pipelines: 0 results/s, 0 clients, 1 shard");
}

TEST(StatusLine, SaysThatAShardIsSilentAndWhatItLastSaid) {
  status_line line(start);
  const shard_sign busy = said({.results = 100, .clients = 4, .pipelines = 2});
  (void)line.write(start + seconds{1}, {busy, busy}, false);
  EXPECT_EQ(line.write(start + seconds{2}, {busy, {}}, false),
            "serving 2 pipelines: 0 results/s, 8 clients, 2 shards (1 of them silent)");
}

TEST(StatusLine, CountsWhatADrainHasLeft) {
  status_line line(start);
  EXPECT_EQ(line.write(start + seconds{1}, {said({.in_flight = 1200}), said({.in_flight = 1})}, true),
            "draining: 1 201 requests in flight, 2 shards");
  EXPECT_EQ(line.write(start + seconds{2}, {{.ended = true, .pulse = {}}, said({.in_flight = 1})}, true),
            "draining: 1 request in flight, 2 shards");
}

}  // namespace

}  // namespace penstock
