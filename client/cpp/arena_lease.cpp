#include "client/cpp/arena_lease.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <span>
#include <stdexcept>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>

#include "client/cpp/errors.hpp"

namespace penstock::link {

std::shared_ptr<arena> published_arena::current() const {
  const std::lock_guard lock{mutex_};
  return arena_;
}

std::string published_arena::absence() const {
  const std::lock_guard lock{mutex_};
  return absence_;
}

std::shared_ptr<arena> published_arena::wait(time_point deadline) const {
  std::unique_lock lock{mutex_};
  const auto is_settled = [this] { return arena_ != nullptr || !absence_.empty(); };
  if (deadline == never) {
    settled_.wait(lock, is_settled);
  } else {
    settled_.wait_until(lock, deadline, is_settled);
  }
  return arena_;
}

std::uint64_t published_arena::changes() const {
  const std::lock_guard lock{mutex_};
  return changes_;
}

void published_arena::wait_for_change(std::uint64_t seen, time_point deadline) const {
  std::unique_lock lock{mutex_};
  settled_.wait_until(lock, deadline, [this, seen] { return changes_ != seen; });
}

void published_arena::keep() {
  const std::lock_guard lock{mutex_};
  ++changes_;
  settled_.notify_all();
}

void published_arena::publish(std::shared_ptr<arena> next) {
  const std::lock_guard lock{mutex_};
  arena_ = std::move(next);
  absence_.clear();
  ++changes_;
  settled_.notify_all();
}

void published_arena::withdraw(std::string reason) {
  const std::lock_guard lock{mutex_};
  arena_.reset();
  absence_ = std::move(reason);
  ++changes_;
  settled_.notify_all();
}

void published_arena::reset() {
  const std::lock_guard lock{mutex_};
  arena_.reset();
  absence_.clear();
}

namespace {

constexpr std::size_t ticket_digits = 32;

/// "@name" is an abstract address, whose first byte is 0.
std::string path_of(std::string text) {
  if (text.size() < 2 || text.size() >= sizeof(sockaddr_un{}.sun_path) || text.find('\0') != std::string::npos) {
    throw std::runtime_error("the daemon names no Unix socket");
  }
  if (text.front() == '@') {
    text.front() = '\0';
  }
  return text;
}

bool is_ticket(const std::string& text) {
  return text.size() == ticket_digits && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

template <class Integer>
Integer little_endian(std::span<const std::byte> bytes) {
  Integer value = 0;
  for (std::size_t at = 0; at < sizeof value; ++at) {
    value |= std::to_integer<Integer>(bytes[at]) << (8U * at);
  }
  return value;
}

/// The descriptor in the message's control data; an empty one when there is none.
file_descriptor descriptor_in(msghdr& message) {
  file_descriptor found;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS && each->cmsg_len >= CMSG_LEN(sizeof(int))) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(each), sizeof number);
      found = file_descriptor{number};
    }
  }
  return found;
}

}  // namespace

arena_socket::arena_socket(const wire::attached& attached)
    : path_(path_of(attached.socket)),
      ticket_(attached.ticket),
      socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  if (!is_ticket(ticket_)) {
    throw std::runtime_error("the daemon's ticket is none");
  }
  if (!socket_) {
    throw_last_error("a Unix socket");
  }
}

arena_socket::~arena_socket() {
  ::shutdown(socket_.number(), SHUT_RDWR);
}

bool arena_socket::connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path_.begin(), path_.end(), std::begin(address.sun_path));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
  if (::connect(socket_.number(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno == EAGAIN || errno == EINTR) {  // the backlog is full
      return false;
    }
    throw_last_error("connecting to the daemon's Unix socket, which can be reached on its machine alone");
  }
  if (::send(socket_.number(), ticket_.data(), ticket_.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(ticket_.size())) {
    throw_last_error("showing the ticket for shared memory");
  }
  return true;
}

bool arena_socket::receive() {
  while (received_ < answer_.size()) {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    const std::span<std::byte> rest = std::span{answer_}.subspan(received_);
    iovec buffer{rest.data(), rest.size()};
    msghdr message{};
    message.msg_iov = &buffer;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket_.number(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return false;
    }
    if (got < 0) {
      throw_last_error("fetching shared memory");
    }
    if (got == 0) {
      throw std::runtime_error("the daemon gave no shared memory; its log says why");
    }
    received_ += static_cast<std::size_t>(got);
    if (file_descriptor came = descriptor_in(message)) {
      memory_ = std::move(came);
    }
  }
  return true;
}

std::shared_ptr<arena> arena_socket::fetch() {
  connected_ = connected_ || connect();
  if (!connected_ || !receive()) {
    return nullptr;
  }
  const std::span<const std::byte> answer{answer_};
  if (std::memcmp(answer.data(), "PNSM", 4) != 0 || !memory_) {
    throw std::runtime_error("the daemon's answer to the ticket makes no sense");
  }
  const file_descriptor memory = std::move(memory_);  // the mapping outlives the descriptor
  return arena::map(memory, little_endian<std::uint32_t>(answer.subspan(4)),
                    little_endian<std::uint64_t>(answer.subspan(8)));
}

bool arena_socket::ended() const noexcept {
  std::byte more{};
  const ssize_t got = ::recv(socket_.number(), &more, sizeof more, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

namespace {

constexpr std::chrono::milliseconds reconnect_interval{5};
constexpr std::chrono::seconds release_interval{1};

}  // namespace

void arena_lease::want(std::uint64_t need, time_point now) {
  if (step_ == step::none && now >= not_before_) {
    size_.want(need, held_.memory != nullptr ? held_.memory->bytes() : 0);
    step_ = step::wanted;
  } else if (step_ == step::none) {
    slot_.keep();
  }
}

void arena_lease::asked(time_point now) {
  step_ = step::asked;
  deadline_ = now + longest_attachment;
}

void arena_lease::ask_again() noexcept {
  if (step_ == step::asked) {
    step_ = step::wanted;
  }
}

bool arena_lease::answered(const wire::attached& attached, time_point now) {
  if (step_ != step::asked) {
    return false;
  }
  try {
    fetching_ = std::make_unique<arena_socket>(attached);
    step_ = step::fetching;
    tend(now);
  } catch (const std::exception& error) {
    failed(error.what(), now);
  }
  return true;
}

void arena_lease::tend(time_point now) {
  if ((step_ == step::asked || step_ == step::fetching) && now >= deadline_) {
    failed("the daemon took too long to share memory", now);
  }
  release_empty_arenas(now);
  if (step_ != step::fetching) {
    return;
  }
  std::shared_ptr<arena> arrived;
  try {
    arrived = fetching_->fetch();
  } catch (const std::exception& error) {
    failed(error.what(), now);
    return;
  }
  reconnect_ = fetching_->descriptor() < 0 ? now + reconnect_interval : never;
  if (arrived != nullptr) {
    adopt(std::move(arrived));
    release_empty_arenas(now);
  }
}

// Requests, results and lent memory in the replaced arena stay where they are.
void arena_lease::adopt(std::shared_ptr<arena> arrived) {
  if (held_.memory != nullptr) {
    former_arenas_.push_back(std::move(held_));
    former_arenas_.back().memory->end();
  }
  held_ = {std::move(fetching_), std::move(arrived)};
  step_ = step::none;
  pause_ = retry_after_;
  slot_.publish(held_.memory);
}

// Any thread may free the last block without telling this one: hence the periodic check.
void arena_lease::release_empty_arenas(time_point now) noexcept {
  std::erase_if(former_arenas_, [](const held_arena& each) { return each.memory->used_bytes() == 0; });
  next_release_ = former_arenas_.empty() ? never : now + release_interval;
}

bool arena_lease::contains(const payload& placed) const noexcept {
  return placed.lies_in(held_.memory.get()) ||
         std::any_of(former_arenas_.begin(), former_arenas_.end(),
                     [&](const held_arena& each) { return placed.lies_in(each.memory.get()); });
}

void arena_lease::refused(std::string reason, bool for_want_of_room, time_point now) {
  if (step_ != step::asked) {
    return;
  }
  if (for_want_of_room && size_.halve()) {
    step_ = step::wanted;
  } else {
    failed(std::move(reason), now);
  }
}

void arena_lease::failed(std::string reason, time_point now) {
  if (step_ == step::none || held_.memory == nullptr) {
    lost(std::move(reason), now);
    return;
  }
  step_ = step::none;
  fetching_.reset();
  reconnect_ = never;
  not_before_ = now + pause_;
  pause_ = std::min(2 * pause_, retry_limit_);
  slot_.keep();
}

void arena_lease::lost(std::string reason, time_point now) {
  release_all();
  not_before_ = now + pause_;
  pause_ = std::min(2 * pause_, retry_limit_);
  slot_.withdraw(std::move(reason));
}

void arena_lease::forget() {
  const bool awaited = step_ != step::none;
  release_all();
  step_ = awaited ? step::wanted : step::none;
  size_.start_anew();
  not_before_ = time_point::min();
  pause_ = retry_after_;
  slot_.reset();
}

void arena_lease::release_all() noexcept {
  step_ = step::none;
  reconnect_ = next_release_ = never;
  fetching_.reset();
  former_arenas_.clear();  // nothing is allocated in them any more
  held_.connection.reset();
  if (held_.memory != nullptr) {
    held_.memory->end();
  }
  held_.memory.reset();
}

time_point arena_lease::next_due() const noexcept {
  switch (step_) {
    case step::asked:
      return std::min(deadline_, next_release_);
    case step::fetching:
      return std::min({deadline_, reconnect_, next_release_});
    default:
      return next_release_;
  }
}

}  // namespace penstock::link
