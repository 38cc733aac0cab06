#include "tests/client/scripted_arena.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace penstock::test {
namespace {

constexpr int patience_ms = 20'000;

void require(bool holds, const char* what) {
  if (!holds) {
    throw std::system_error(errno, std::generic_category(), what);
  }
}

void await_readable(int descriptor, const char* what) {
  pollfd item{descriptor, POLLIN, 0};
  if (::poll(&item, 1, patience_ms) != 1) {
    throw std::runtime_error(what);
  }
}

/// Of this process and this moment: tests run beside one another.
std::string unused_name() {
  static std::atomic<int> count{0};
  return "penstock-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

template <class Integer>
void append(std::string& to, Integer value) {
  for (std::size_t at = 0; at < sizeof value; ++at) {
    to.push_back(static_cast<char>(value >> (8U * at)));
  }
}

}  // namespace

link::file_descriptor make_memory(std::size_t bytes, bool sealed) {
  link::file_descriptor made{::memfd_create("penstock-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  require(static_cast<bool>(made), "memfd_create");
  require(::ftruncate(made.number(), static_cast<off_t>(bytes)) == 0, "ftruncate");
  require(!sealed || ::fcntl(made.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "F_ADD_SEALS");
  return made;
}

scripted_arena::scripted_arena(std::uint32_t number, std::size_t bytes)
    : number_(number),
      name_(unused_name()),
      ticket_(32, static_cast<char>('0' + number % 10)),
      listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      descriptor_(make_memory(bytes)) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.number(), 0);
  require(at != MAP_FAILED, "mmap");
  memory_ = {static_cast<std::byte*>(at), bytes};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name_.begin(), name_.end(), std::begin(address.sun_path) + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  require(::bind(listener_.number(), reinterpret_cast<const sockaddr*>(&address), length) == 0, "bind");
  require(::listen(listener_.number(), 1) == 0, "listen");
}

scripted_arena::~scripted_arena() {
  ::munmap(memory_.data(), memory_.size());
}

void scripted_arena::let_in() {
  await_readable(listener_.number(), "nobody came to fetch the arena");
  lease_ = link::file_descriptor{::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC)};
  require(static_cast<bool>(lease_), "accept");
  std::string shown(ticket_.size(), '\0');
  await_readable(lease_.number(), "the client showed no ticket");
  require(::recv(lease_.number(), shown.data(), shown.size(), MSG_WAITALL) >= 0, "recv");
  if (shown != ticket_) {
    throw std::runtime_error("the client showed the ticket " + shown);
  }
}

std::string scripted_arena::right_answer() const {
  std::string bytes = "PNSM";
  append(bytes, number_);
  append(bytes, std::uint64_t{memory_.size()});
  return bytes;
}

void scripted_arena::hand_over() {
  answer(right_answer(), descriptor_.number());
}

void scripted_arena::answer(const std::string& bytes, int descriptor) {
  let_in();
  std::string copy = bytes;
  iovec what{copy.data(), copy.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof descriptor)> control{};
  msghdr message{};
  message.msg_iov = &what;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const first = CMSG_FIRSTHDR(&message);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(first), &descriptor, sizeof descriptor);
  }
  require(::sendmsg(lease_.number(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()), "sendmsg");
}

void scripted_arena::add(const std::string& bytes) {
  require(::send(lease_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()),
          "send");
}

void scripted_arena::turn_away() {
  let_in();
  end_lease();
}

void scripted_arena::end_lease() {
  lease_ = link::file_descriptor{};
}

void scripted_arena::await_end_of_lease() {
  await_readable(lease_.number(), "the client keeps the lease");
  char more = 0;
  if (::recv(lease_.number(), &more, sizeof more, 0) > 0) {
    throw std::runtime_error("the client sent something else over the lease");
  }
}

}  // namespace penstock::test
