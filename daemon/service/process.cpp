#include "daemon/service/process.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/systemd_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exit_code.hpp"

namespace penstock {
namespace {

constexpr const char* name = "penstockd";
// Of sd-daemon(3): the journal takes it off the line, as its priority.
constexpr const char* error_prefix = "<3>";

// Who reads the log may go, and its file may be at its limit: a line is lost then, not the daemon.
void outlive_the_reader() noexcept {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

// JOURNAL_STREAM alone is no proof: it is inherited by programs whose output goes elsewhere.
bool journal_reads_stderr() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat here {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &here) == 0 &&
         fmt::format("{}:{}", here.st_dev, here.st_ino) == stream;
}

void open_log(const std::string& level) {
  outlive_the_reader();
  std::shared_ptr<spdlog::logger> log;
  if (journal_reads_stderr()) {
    log = spdlog::systemd_logger_mt(name, name);
  } else {
    log = spdlog::stderr_color_mt(name);
    log->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  }
  log->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(log));
}

void complain(const std::string& why) {
  outlive_the_reader();
  const bool to_journal = journal_reads_stderr();
  std::fprintf(stderr, "%s%s\n", to_journal ? error_prefix : "penstockd: ", why.c_str());
}

namespace {

constexpr std::string_view farewell = "penstockd: out of memory\n";

std::terminate_handler otherwise = nullptr;

[[noreturn]] void end_by_exception() noexcept {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) {
      end_without_memory();
    }
    otherwise();  // which names it
  } catch (...) {
    otherwise();
  }
  std::abort();
}

}  // namespace

void end_without_memory() noexcept {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, farewell.data(), farewell.size());
  std::_Exit(static_cast<int>(exit_code::out_of_memory));
}

void end_when_out_of_memory() noexcept {
  std::set_new_handler(end_without_memory);
  otherwise = std::set_terminate(end_by_exception);
}

void let_allocations_throw() noexcept {
  std::set_new_handler(nullptr);
}

namespace {

// What somebody says on purpose, from a terminal, keeps its meaning.
constexpr std::array deliberate_signals{SIGQUIT, SIGTSTP};
// What does not end a process, or can't be ignored.
constexpr std::array harmless_signals{SIGCHLD, SIGCONT, SIGTTIN, SIGTTOU, SIGKILL, SIGSTOP};
constexpr std::array fault_signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

// Any other signal would end the daemon, and nobody sends one to do so: SIGIO is the kernel's where a client opens its
// lent memory again (memory_watch). A library may have started threads before signals were blocked, and have handlers
// of its own, which stay.
void ignore_other_signals() noexcept {
  const auto has = [](const auto& some, int signal) {
    return std::find(some.begin(), some.end(), signal) != some.end();
  };
  for (int each = 1; each <= SIGRTMAX; ++each) {
    if (has(served_signals, each) || has(deliberate_signals, each) || has(fault_signals, each) ||
        has(harmless_signals, each)) {
      continue;
    }
    struct sigaction now {};
    if (::sigaction(each, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) {
      std::signal(each, SIG_IGN);
    }
  }
}

}  // namespace

// All signals but those of a thread's own faults, on this thread and whichever it starts from now on.
void block_signals() noexcept {
  sigset_t masked;
  ::sigfillset(&masked);
  for (const int each : fault_signals) {
    ::sigdelset(&masked, each);
  }
  ::pthread_sigmask(SIG_BLOCK, &masked, nullptr);
  ignore_other_signals();
}

// On this thread. The others stay blocked everywhere.
void unblock_served_signals() noexcept {
  sigset_t served;
  ::sigemptyset(&served);
  for (const int each : served_signals) {
    ::sigaddset(&served, each);
  }
  for (const int each : deliberate_signals) {
    ::sigaddset(&served, each);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &served, nullptr);
}

bool is_told_to_end() noexcept {
  sigset_t waiting;
  ::sigemptyset(&waiting);
  ::sigpending(&waiting);
  return ::sigismember(&waiting, SIGTERM) == 1 || ::sigismember(&waiting, SIGINT) == 1;
}

}  // namespace penstock
