#include "tests/bench/endpoint_source.hpp"

#include <atomic>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <system_error>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::bench {
namespace {

constexpr std::uint32_t first_port = 12'000;
constexpr std::uint32_t ports = 20'000;

bool is_free(std::uint16_t port) {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool made = ::bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(probe);
  return made;
}

}  // namespace

endpoint_source::endpoint_source() {
  std::string name = (std::filesystem::temp_directory_path() / "penstock-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder for sockets");
  }
  folder_ = name;
}

endpoint_source::~endpoint_source() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string endpoint_source::tcp() {
  static std::atomic<std::uint32_t> next{std::random_device{}()};  // of all sources: no port is given twice
  for (std::uint32_t attempt = 0; attempt < ports; ++attempt) {
    const std::uint32_t port = first_port + next++ % ports;
    if (is_free(static_cast<std::uint16_t>(port))) {
      return "tcp://127.0.0.1:" + std::to_string(port);
    }
  }
  throw std::runtime_error("no free port on the loopback address");
}

std::string endpoint_source::ipc() {
  return "ipc://" + (folder_ / std::to_string(next_socket_++)).string();
}

}  // namespace penstock::bench
