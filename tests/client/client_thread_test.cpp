#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include <gtest/gtest.h>
#include <penstock/client.hpp>
#include <pthread.h>

#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {
namespace {

/// The signals that the thread of that name blocks, a bit each, the first for signal 1; 0 when there is no such thread.
std::uint64_t blocked_by(const std::string& name) {
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(each.path() / "status");
    std::string word;
    if (!(status >> word >> word) || word != name) {
      continue;
    }
    while (status >> word && word != "SigBlk:") {
    }
    std::uint64_t blocked = 0;
    status >> std::hex >> blocked;
    return blocked;
  }
  return 0;
}

// Whatever handlers the program has run on its own threads, and cut no call of ZeroMQ's short.
TEST(ClientThread, LeavesSignalsToTheProgram) {
  scripted_daemon daemon;
  std::future<received> greeting = std::async(std::launch::async, [&daemon] { return daemon.greet(); });
  client_options options;
  options.url = daemon.url();
  const client connected{options};
  greeting.get();
  const std::uint64_t blocked = blocked_by("penstock");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1, SIGPROF}) {
    EXPECT_NE(blocked & (std::uint64_t{1} << static_cast<unsigned>(signal - 1)), 0U) << signal;
  }
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    EXPECT_EQ(blocked & (std::uint64_t{1} << static_cast<unsigned>(fault - 1)), 0U) << fault;
  }
  sigset_t own;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &own), 0);
  EXPECT_EQ(sigismember(&own, SIGUSR1), 0);
}

}  // namespace
}  // namespace penstock::test
