#include "daemon/admin/service_manager.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace penstock {
namespace {

using std::chrono::microseconds;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

/// A socket that stands where systemd's would.
class manager_socket {
 public:
  manager_socket() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_ + "/notify";
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
    std::filesystem::remove_all(folder_);
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
  static std::string new_folder() {
    std::string name = "/tmp/penstock-notify-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("can't make a folder");
    }
    return name;
  }

  std::string folder_ = new_folder();
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

}  // namespace
}  // namespace penstock
