#include "client/cli/child_output.hpp"

#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.hpp"

namespace penstock::cli {
namespace {

void require(int error, const std::string& operation) {
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), operation);
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t read = ::read(descriptor, part.data(), part.size());
    if (read > 0) {
      text.append(part.data(), static_cast<std::size_t>(read));
    } else if (read == 0 || errno != EINTR) {
      return text;
    }
  }
}

}  // namespace

child_output output_of(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& each : command) {
    words.push_back(const_cast<char*>(each.c_str()));  // execve does not write to them
  }
  words.push_back(nullptr);
  std::array<int, 2> ends{};
  require(::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe");
  const file_descriptor reading{ends[0]};
  file_descriptor writing{ends[1]};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writing.number(), STDOUT_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, words.front(), &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  writing.close();
  child_output made;
  if (failed == 0) {
    made.text = read_all(reading.number());
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    made.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  require(failed, command.front());
  return made;
}

}  // namespace penstock::cli
