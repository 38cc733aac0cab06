#include "tests/bench/servers.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.hpp>

namespace penstock::bench {

child_process::child_process(const std::function<void()>& serve) : pid_(::fork()) {
  if (pid_ < 0) {
    throw std::runtime_error("cannot start a process");
  }
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      serve();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "penstock-bench: %s\n", error.what());
    }
    ::_exit(1);
  }
}

child_process::~child_process() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

namespace {

constexpr std::uint32_t first_port = 12'000;
constexpr std::uint32_t ports = 20'000;

bool is_free(std::uint16_t port) {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool bound = ::bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(probe);
  return bound;
}

}  // namespace

std::string endpoint_source::tcp() {
  static std::atomic<std::uint32_t> next{std::random_device{}()};  // shared by all sources: no port is given twice
  for (std::uint32_t attempt = 0; attempt < ports; ++attempt) {
    const std::uint32_t port = first_port + next++ % ports;
    if (is_free(static_cast<std::uint16_t>(port))) {
      return "tcp://127.0.0.1:" + std::to_string(port);
    }
  }
  throw std::runtime_error("no free port on the loopback address");
}

std::string endpoint_source::ipc() {
  return "ipc://" + (folder_.path() / std::to_string(next_socket_++)).string();
}

namespace {

[[noreturn]] void serve(const std::string& endpoint, int io_threads) {
  zmq::context_t context(io_threads);
  zmq::socket_t socket(context, zmq::socket_type::router);
  // Without a high-water mark a send never waits for a slow reader, and only messages for lost clients are dropped.
  socket.set(zmq::sockopt::sndhwm, 0);
  socket.bind(endpoint);
  zmq::message_t part;
  for (;;) {
    (void)socket.recv(part);
    (void)socket.send(part, part.more() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

}  // namespace

echo_server::echo_server(std::string endpoint, int io_threads)
    : endpoint_(std::move(endpoint)), process_([this, io_threads] { serve(endpoint_, io_threads); }) {}

namespace {

[[noreturn]] void serve(const std::string& endpoint) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.bind(endpoint);
  std::vector<char> place;
  zmq::message_t client;
  zmq::message_t message;
  for (;;) {
    (void)socket.recv(client);
    (void)socket.recv(message);
    if (message.size() == 0) {
      (void)socket.send(client, zmq::send_flags::sndmore);
      (void)socket.send(message, zmq::send_flags::none);
      continue;
    }
    if (place.size() < message.size()) {
      place.resize(message.size());
    }
    std::memcpy(place.data(), message.data(), message.size());
  }
}

}  // namespace

sink_server::sink_server(std::string endpoint)
    : endpoint_(std::move(endpoint)), process_([this] { serve(endpoint_); }) {}

namespace {

std::size_t bytes_in(const std::string& line) {
  return std::stoul(line.substr(line.find(':') + 1)) * 1024;
}

}  // namespace

process_usage usage_of(pid_t process) {
  const std::filesystem::path folder = "/proc/" + std::to_string(process);
  process_usage usage;
  std::ifstream status(folder / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) {
      usage.resident_bytes = bytes_in(line);
    }
  }
  std::error_code gone;
  for (std::filesystem::directory_iterator each(folder / "fd", gone), end; each != end; each.increment(gone)) {
    ++usage.open_files;
  }
  return usage;
}

}  // namespace penstock::bench
