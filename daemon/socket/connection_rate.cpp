#include "daemon/socket/connection_rate.hpp"

#include <algorithm>
#include <cstring>

#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock {
namespace {

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;

std::int64_t interval_of(double per_second) noexcept {
  return static_cast<std::int64_t>(1e9 / per_second);
}

// splitmix64's finalizer.
std::uint64_t mixed(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

std::uint64_t random_word() noexcept {
  std::uint64_t word = 0;
  return ::getrandom(&word, sizeof word, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof word) ? word : golden;
}

struct peer {
  std::uint64_t source = 0;
  bool own = false;  // of this process
};

// Straight to the system, as accept_connection. A process of this machine, an IPv4 address, or the network of an IPv6
// address: whoever has one has 2^64.
peer peer_of(int descriptor) noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::syscall(SYS_getpeername, descriptor, &address, &size) != 0) {
    return {};
  }
  if (address.ss_family == AF_UNIX) {
    ucred process{};
    size = sizeof process;
    (void)::syscall(SYS_getsockopt, descriptor, SOL_SOCKET, SO_PEERCRED, &process, &size);
    const auto pid = static_cast<std::uint32_t>(process.pid);
    return {std::uint64_t{process.uid} << 32U | pid, process.pid == ::getpid()};
  }
  std::uint64_t network = 0;
  if (address.ss_family == AF_INET) {
    network = reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr;
  } else if (address.ss_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    // An IPv4 address that a socket of both kinds shows.
    std::memcpy(&network, six.s6_addr + (IN6_IS_ADDR_V4MAPPED(&six) ? sizeof network : 0), sizeof network);
  }
  return {network * golden + address.ss_family, false};
}

connection_rate rate;
const std::uint64_t secret = random_word();
std::atomic<std::uint64_t> refused{0};

}  // namespace

connection_rate::connection_rate(const connection_rates& rates) noexcept
    : each_interval_(interval_of(rates.each_per_second)),
      all_interval_(interval_of(rates.all_per_second)),
      each_at_once_(rates.each_at_once),
      all_at_once_(rates.all_at_once) {}

bool connection_rate::admits(std::uint64_t source, time_point now) noexcept {
  const std::int64_t at = now.time_since_epoch().count();
  return take(each_[mixed(source) % buckets], at, each_interval_, each_at_once_.load(std::memory_order_relaxed)) &&
         take(all_, at, all_interval_, all_at_once_.load(std::memory_order_relaxed));
}

void connection_rate::set_at_once(std::uint32_t each, std::uint32_t all) noexcept {
  each_at_once_.store(each, std::memory_order_relaxed);
  all_at_once_.store(all, std::memory_order_relaxed);
}

bool connection_rate::take(bucket& from, std::int64_t now, std::int64_t interval, std::int64_t at_once) noexcept {
  std::int64_t before = from.load(std::memory_order_relaxed);
  std::int64_t start = 0;
  do {
    start = std::max(before, now);
    if (start - now > interval * (at_once - 1)) {
      return false;
    }
  } while (!from.compare_exchange_weak(before, start + interval, std::memory_order_relaxed));
  return true;
}

bool admit_connection(int descriptor) noexcept {
  const peer from = peer_of(descriptor);
  if (from.own || rate.admits(from.source ^ secret, std::chrono::steady_clock::now())) {
    return true;
  }
  refused.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void set_expected_clients(std::size_t clients) noexcept {
  constexpr connection_rates least;
  constexpr std::size_t most = std::size_t{1} << 20U;
  const auto expected = static_cast<std::uint32_t>(std::min(clients, most));
  rate.set_at_once(std::max(least.each_at_once, expected / 2), std::max(least.all_at_once, 4 * expected));
}

std::uint64_t connections_too_often() noexcept {
  return refused.load(std::memory_order_relaxed);
}

}  // namespace penstock
