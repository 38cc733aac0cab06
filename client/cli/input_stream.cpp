#include "client/cli/input_stream.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::cli {

bool stop_event::request(int signal) noexcept {
  if (requested_.exchange(true)) {
    return false;
  }
  signal_ = signal;
  event_.signal();
  return true;
}

namespace {

/// For the signal handler. Set before the handlers are installed.
stop_event* asked = nullptr;

extern "C" void stop_on_signal(int signal) {
  if (!asked->request(signal)) {
    ::_exit(128 + signal);  // the second signal: leave at once; the files are valid
  }
}

[[noreturn]] void fail(const std::string& name, int error) {
  throw input_error("can't read " + name + ": " + std::strerror(error));
}

// O_NONBLOCK: otherwise `open` would block on a FIFO without a writer, beyond the reach of signals.
int open_input(const std::string& name) {
  const int descriptor = name == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                     : ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    fail(name == "-" ? "the standard input" : name, errno);
  }
  return descriptor;
}

}  // namespace

void end_stream_on_signals(stop_event& stop) {
  asked = &stop;
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(each, nullptr, &before);
    if (before.sa_handler != SIG_IGN) {
      struct sigaction handler {};
      handler.sa_handler = &stop_on_signal;
      sigaction(each, &handler, nullptr);
    }
  }
}

input_stream::input_stream(std::string name, stop_event& stop)
    : input_stream(open_input(name), name == "-" ? "the standard input" : name, stop) {}

input_stream::input_stream(int descriptor, std::string name, stop_event& stop)
    : name_(std::move(name)), stop_(stop), descriptor_(descriptor) {
  look_at_kind();
}

void input_stream::look_at_kind() {
  struct stat kind {};
  if (::fstat(descriptor_.number(), &kind) != 0) {
    fail(name_, errno);
  }
  if (S_ISDIR(kind.st_mode)) {
    fail(name_, EISDIR);
  }
  if (S_ISREG(kind.st_mode)) {
    begin_ = std::max<std::int64_t>(::lseek(descriptor_.number(), 0, SEEK_CUR), 0);
    size_ = static_cast<std::uint64_t>(std::max<std::int64_t>(kind.st_size - begin_, 0));
  }
}

bool input_stream::wait(std::optional<clock::time_point> deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - clock::now()).count();
      timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000'000));
    }
    std::array<pollfd, 2> descriptors{{{descriptor_.number(), POLLIN, 0}, {stop_.descriptor(), POLLIN, 0}}};
    const int ready = ::poll(descriptors.data(), descriptors.size(), timeout);
    if (ready < 0 && errno != EINTR) {
      fail(name_, errno);
    }
    if (stop_.requested() || ready == 0) {
      return false;
    }
    if (ready > 0 && descriptors[0].revents != 0) {
      return true;
    }
  }
}

std::size_t input_stream::read_now(std::span<std::byte> out, std::optional<clock::time_point> deadline) {
  while (!at_end_ && !out.empty() && wait(deadline)) {
    const ssize_t got = ::read(descriptor_.number(), out.data(), out.size());
    if (got > 0) {
      return static_cast<std::size_t>(got);
    }
    at_end_ = got == 0;
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      // A pseudo-terminal whose other side was closed.
      fail(name_, errno);
    }
  }
  return 0;
}

std::size_t input_stream::read_some(std::span<std::byte> out, std::optional<clock::time_point> deadline) {
  if (ahead_.empty()) {
    return read_now(out, deadline);
  }
  const std::size_t count = std::min(out.size(), ahead_.size());
  std::copy_n(ahead_.begin(), count, out.begin());
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t input_stream::read_all(std::span<std::byte> out) {
  std::size_t taken = 0;
  while (taken < out.size()) {
    const std::size_t got = read_some(out.subspan(taken));
    if (got == 0) {
      break;
    }
    taken += got;
  }
  return taken;
}

std::span<const std::byte> input_stream::peek(std::size_t count, std::optional<clock::time_point> deadline) {
  while (ahead_.size() < count) {
    const std::size_t before = ahead_.size();
    ahead_.resize(count);
    std::size_t got = 0;
    try {
      got = read_now(std::span{ahead_}.subspan(before), deadline);
    } catch (...) {
      ahead_.resize(before);
      throw;
    }
    ahead_.resize(before + got);
    if (got == 0) {
      break;
    }
  }
  return std::span{ahead_}.first(std::min(count, ahead_.size()));
}

bool input_stream::skip(std::uint64_t count) {
  std::array<std::byte, 4096> waste{};
  while (count > 0) {
    const std::size_t got = read_some(std::span{waste}.first(std::min<std::uint64_t>(count, waste.size())));
    if (got == 0) {
      return false;
    }
    count -= got;
  }
  return true;
}

void input_stream::rewind() {
  ahead_.clear();
  at_end_ = false;
  if (::lseek(descriptor_.number(), begin_, SEEK_SET) < 0) {
    fail(name_, errno);
  }
}

}  // namespace penstock::cli
