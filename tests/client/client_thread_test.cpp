#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <penstock/client.hpp>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/client/scripted_daemon.hpp"
#include "tests/client/session_rig.hpp"

namespace penstock::test {
namespace {

using ForkedClient = session_rig;

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

TEST(ClientThread, OutlivesCompletionsThatThrow) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  request.release = [] { throw std::runtime_error("of the caller's"); };
  connected->submit("double", request, [](outcome&&) { throw std::runtime_error("of the caller's"); });
  request.release = nullptr;
  daemon.result(daemon.expect(wire::message_type::submit));
  auto next = connected->submit("double", request);
  daemon.result(daemon.expect(wire::message_type::submit));
  next.get();
  EXPECT_EQ(connected->counters().thrown, 1U);
}

/// What a call in a forked child throws, or that it throws nothing, or hangs.
template <class Call>
std::string in_child(Call&& call) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    std::string said = "nothing was thrown";
    try {
      call();
    } catch (const std::exception& error) {
      said = error.what();
    }
    [[maybe_unused]] const auto written = ::write(ends[1], said.data(), said.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said(4096, '\0');
  const auto taken = ::read(ends[0], said.data(), said.size());
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return taken > 0 ? said.substr(0, static_cast<std::size_t>(taken)) : "it hangs";
}

TEST_F(ForkedClient, RefusesEveryCallInTheChildAndServesTheParent) {
  connect();
  session line = open();
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  using ::testing::HasSubstr;
  const std::string why = "which forked this one: make a client here";
  EXPECT_THAT(in_child([&] { (void)line.submit(request); }), HasSubstr(why));
  EXPECT_THAT(in_child([&] { (void)line.run(bytes); }), HasSubstr(why));
  EXPECT_THAT(in_child([&] { (void)client_->submit("double", request); }), HasSubstr(why));
  EXPECT_THAT(in_child([&] { (void)client_->ping(); }), HasSubstr(why));
  EXPECT_THAT(in_child([&] { (void)client_->status_json(); }), HasSubstr(why));
  EXPECT_THAT(in_child([&] { (void)client_->open_session("double"); }), HasSubstr(why));
  EXPECT_THAT(in_child([&] { client_->cancel(1); }), HasSubstr(why));
  EXPECT_THAT(in_child([&] { (void)client_->lend(64); }), HasSubstr(why));
  EXPECT_EQ(in_child([&] { line.close(); }), "nothing was thrown");
  EXPECT_EQ(in_child([&] { client_.reset(); }), "nothing was thrown");
  settle();
  auto future = submit(line);
  daemon_.result(expect_submit(0));
  future.get();
}

}  // namespace
}  // namespace penstock::test
