#include "base/child_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace penstock {

child_process::child_process(const std::filesystem::path& program, std::span<const std::string> words, int input,
                             int output) {
  std::string name = program.string();
  std::vector<std::string> own(words.begin(), words.end());
  std::vector<char*> all{name.data()};
  for (std::string& word : own) {
    all.push_back(word.data());
  }
  all.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int failed = ::posix_spawn(&id_, name.c_str(), &actions, &attributes, all.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    id_ = -1;
    throw std::system_error(failed, std::generic_category(), name + " can't be started");
  }
}

child_process::~child_process() {
  if (id_ > 0) {
    kill();
    (void)wait();
  }
}

int child_process::wait() noexcept {
  int status = 0;
  while (id_ > 0 && ::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  id_ = -1;
  return status;
}

void child_process::kill() noexcept {
  if (id_ > 0) {
    ::kill(id_, SIGKILL);
  }
}

int become_child() noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before.
  pollfd reader{STDOUT_FILENO, 0, 0};
  if (::poll(&reader, 1, 0) > 0 && (reader.revents & POLLERR) != 0) {
    ::_exit(EXIT_FAILURE);
  }
  // A driver may have left descriptors of the daemon's open.
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  const int answers = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return answers;
}

bool was_ended_by_others(int status) noexcept {
  return WIFSIGNALED(status) &&
         (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGKILL);
}

std::string ending_text(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* const name = ::sigabbrev_np(number);
    return "was ended by " + (name == nullptr ? "signal " + std::to_string(number) : "SIG" + std::string(name)) + " (" +
           ::strsignal(number) + ")";
  }
  return "ended with " + std::to_string(WEXITSTATUS(status));
}

}  // namespace penstock
