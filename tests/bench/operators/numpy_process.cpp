#include "tests/bench/operators/numpy_process.hpp"

#include <cstdlib>
#include <stdexcept>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::bench {
namespace {

constexpr const char* python = "/usr/bin/python3";
constexpr const char* worker = PENSTOCK_NUMPY_WORKER;

[[noreturn]] void become_worker(int from, int to) {
  ::dup2(from, STDIN_FILENO);
  ::dup2(to, STDOUT_FILENO);
  for (const char* const limit : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"}) {
    ::setenv(limit, "1", 1);
  }
  ::execl(python, python, "-B", worker, static_cast<char*>(nullptr));
  ::_exit(127);
}

}  // namespace

numpy_process::numpy_process() {
  // A socket pair, so that a worker that has ended is an error of `send` and not a signal.
  int asked[2];
  int answered[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, asked) != 0 || ::pipe2(answered, O_CLOEXEC) != 0) {
    throw std::runtime_error("cannot make pipes to numpy's process");
  }
  child_ = ::fork();
  if (child_ < 0) {
    throw std::runtime_error("cannot start numpy's process");
  }
  if (child_ == 0) {
    become_worker(asked[1], answered[1]);
  }
  ::close(asked[1]);
  ::close(answered[1]);
  to_ = asked[0];
  from_ = answered[0];
}

numpy_process::~numpy_process() {
  ::close(to_);
  ::close(from_);
  ::waitpid(child_, nullptr, 0);
}

nlohmann::ordered_json numpy_process::ask(const nlohmann::ordered_json& what) {
  const std::string line = what.dump() + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t count = ::send(to_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0) {
      throw std::runtime_error("numpy's process has ended: are python3-numpy and python3-scipy installed?");
    }
    sent += static_cast<std::size_t>(count);
  }
  return nlohmann::ordered_json::parse(read_line());
}

std::string numpy_process::read_line() {
  for (;;) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    char piece[4096];
    const ssize_t count = ::read(from_, piece, sizeof piece);
    if (count <= 0) {
      throw std::runtime_error("numpy's process has ended: are python3-numpy and python3-scipy installed?");
    }
    unread_.append(piece, static_cast<std::size_t>(count));
  }
}

}  // namespace penstock::bench
