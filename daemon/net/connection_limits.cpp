#include "daemon/net/connection_limits.hpp"

#include <algorithm>
#include <array>
#include <atomic>
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

// A direct system call, as accept_connection. The source is a process of this machine, an IPv4 address, or the /64
// network of an IPv6 address, since one host has all of its addresses.
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
    // An IPv4 address as a dual-stack socket reports it.
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

bool connection_rate::take(bucket& bucket, std::int64_t now, std::int64_t interval, std::int64_t at_once) noexcept {
  std::int64_t before = bucket.load(std::memory_order_relaxed);
  std::int64_t start = 0;
  do {
    start = std::max(before, now);
    if (start - now > interval * (at_once - 1)) {
      return false;
    }
  } while (!bucket.compare_exchange_weak(before, start + interval, std::memory_order_relaxed));
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

namespace {

// The state of a connection in one word: stranger or client, generation of its descriptor, bytes that it is ahead.
constexpr std::uint64_t stranger = std::uint64_t{1} << 62U;
constexpr std::uint64_t client = std::uint64_t{2} << 62U;
constexpr std::uint64_t whose = std::uint64_t{3} << 62U;
constexpr unsigned generation_shift = 46;
constexpr std::uint64_t ahead_mask = (std::uint64_t{1} << generation_shift) - 1;

std::int64_t ahead_of(std::uint64_t word) noexcept {
  return static_cast<std::int64_t>(word & ahead_mask);
}

std::uint16_t generation_of(std::uint64_t word) noexcept {
  return static_cast<std::uint16_t>((word & ~whose) >> generation_shift);
}

bool is_stranger(std::uint64_t word) noexcept {
  return (word & whose) == stranger;
}

struct connection {
  std::atomic<std::uint64_t> word{0};
  std::atomic<bool> accepts_clients{false};  // it listens: see meter_as_clients
  std::atomic<bool> heard{false};            // a whole message was received, so its beginning was checked
  // Used only by the thread that reads it.
  std::uint16_t generation = 0;
  std::uint32_t position = 0;
  std::uint8_t matched = 0;
  std::uint8_t greeting_left = 0;
  std::uint8_t header_bytes = 0;
  std::uint8_t first_frames = 0;
  std::array<std::uint8_t, 9> header{};
  std::uint64_t frame_left = 0;
};

std::array<connection, most_watched_descriptors> connections;
std::atomic<std::int64_t> strangers_ahead{0};
std::atomic<std::int64_t> client_bytes{std::int64_t{1} << 30U};
std::atomic<std::int64_t> request_bytes{0};
std::atomic<std::uint64_t> cut{0};
std::atomic<std::uint64_t> let_go{0};

connection* find(int descriptor) noexcept {
  return descriptor >= 0 && static_cast<std::size_t>(descriptor) < connections.size()
             ? &connections[static_cast<std::size_t>(descriptor)]
             : nullptr;
}

// A property of READY: length and name, then the length of the value and its first byte.
constexpr std::array<std::uint8_t, 14> reserved_identity{8, 'I', 'd', 'e', 'n', 't', 'i', 't', 'y', 0, 0, 0, 5, 0};
// Size of the greeting.
constexpr std::uint8_t greeting_size = 64;
constexpr std::uint32_t signature_at = 0;
constexpr std::uint8_t signature = 0xFF;
constexpr std::uint32_t versioned_at = 9;
constexpr std::uint32_t major_at = 10;
constexpr std::uint8_t lowest_major = 3;
// Of a client, that are bounded by themselves.
constexpr std::uint8_t handshake_frames = 2;

bool is_good_greeting(std::uint32_t position, std::uint8_t byte) noexcept {
  switch (position) {
    case signature_at:
      return byte == signature;
    case versioned_at:
      return (byte & 1U) != 0;
    case major_at:
      return byte >= lowest_major;
    default:
      return true;
  }
}

// The pattern's first byte occurs in it only once, so a mismatch needs no table.
bool begins_well(connection& connection, std::span<const std::byte> bytes) noexcept {
  for (const std::byte each : bytes) {
    const auto byte = std::to_integer<std::uint8_t>(each);
    if (!is_good_greeting(connection.position, byte)) {
      return false;
    }
    ++connection.position;
    connection.matched = byte == reserved_identity[connection.matched]
                             ? static_cast<std::uint8_t>(connection.matched + 1)
                         : byte == reserved_identity[0] ? std::uint8_t{1}
                                                        : std::uint8_t{0};
    if (connection.matched == reserved_identity.size()) {
      return false;
    }
  }
  return true;
}

struct frames_read {
  std::uint64_t begun = 0;
  bool good = true;
};

// ZMTP 3 with any mechanism: the greeting, then frames of flags, length (one byte, or eight) and body.
frames_read read_frames(connection& connection, std::span<const std::byte> bytes) noexcept {
  constexpr std::uint8_t long_flag = 2;
  frames_read read;
  std::size_t at = std::min<std::size_t>(connection.greeting_left, bytes.size());
  connection.greeting_left = static_cast<std::uint8_t>(connection.greeting_left - at);
  while (at < bytes.size()) {
    if (connection.frame_left > 0) {
      const std::uint64_t body = std::min<std::uint64_t>(connection.frame_left, bytes.size() - at);
      connection.frame_left -= body;
      at += body;
      continue;
    }
    connection.header[connection.header_bytes++] = std::to_integer<std::uint8_t>(bytes[at++]);
    const bool is_long = (connection.header[0] & long_flag) != 0;
    if (connection.header_bytes < (is_long ? connection.header.size() : 2)) {
      continue;
    }
    for (std::size_t byte = 1; byte < connection.header_bytes; ++byte) {
      connection.frame_left = connection.frame_left << 8U | connection.header[byte];
    }
    connection.header_bytes = 0;
    ++read.begun;
    if (connection.first_frames < handshake_frames) {
      ++connection.first_frames;
      read.good = read.good && connection.frame_left <= static_cast<std::uint64_t>(greeting_bytes);
    }
  }
  return read;
}

bool is_within_bounds(std::uint64_t word) noexcept {
  const std::int64_t ahead = ahead_of(word);
  if (!is_stranger(word)) {
    return ahead <= client_bytes.load(std::memory_order_relaxed);
  }
  const std::int64_t request = request_bytes.load(std::memory_order_relaxed);
  return ahead <= stranger_bytes + request &&
         (ahead <= greeting_bytes || strangers_ahead.load(std::memory_order_relaxed) <= strangers_bytes + request);
}

}  // namespace

void meter_as_clients(int listening) noexcept {
  if (connection* const connection = find(listening)) {
    connection->accepts_clients.store(true, std::memory_order_relaxed);
  }
}

void begin_metering(int descriptor, int listening) noexcept {
  const connection* const door = find(listening);
  const bool is_client = door != nullptr && door->accepts_clients.load(std::memory_order_relaxed);
  if (connection* const connection = find(descriptor)) {
    // Another thread may have read the previous connection; this load synchronises with it.
    (void)connection->word.load(std::memory_order_acquire);
    connection->position = 0;
    connection->matched = 0;
    connection->greeting_left = greeting_size;
    connection->header_bytes = 0;
    // A sender's handshake has one frame, and the next may be a large message.
    connection->first_frames = is_client ? handshake_frames : std::uint8_t{0};
    connection->frame_left = 0;
    connection->heard.store(false, std::memory_order_relaxed);
    connection->generation = std::max<std::uint16_t>(1, static_cast<std::uint16_t>(connection->generation + 1));
    connection->word.store((is_client ? client : stranger) | std::uint64_t{connection->generation} << generation_shift,
                           std::memory_order_release);
  }
}

bool is_metered(int descriptor) noexcept {
  const connection* const which = find(descriptor);
  return which != nullptr && which->word.load(std::memory_order_relaxed) != 0;
}

bool end_metering(int descriptor) noexcept {
  if (connection* const connection = find(descriptor)) {
    connection->accepts_clients.store(false, std::memory_order_relaxed);
  }
  if (!is_metered(descriptor)) {
    return false;
  }
  connection* const which = find(descriptor);
  const std::uint64_t word = which->word.exchange(0);
  if (is_stranger(word)) {
    strangers_ahead.fetch_sub(ahead_of(word), std::memory_order_relaxed);
  }
  let_go.fetch_add(static_cast<std::uint64_t>(ahead_of(word)), std::memory_order_relaxed);
  return true;
}

bool meter_received(int descriptor, std::span<const std::byte> bytes) noexcept {
  connection* const which = find(descriptor);
  std::uint64_t word = which != nullptr ? which->word.load(std::memory_order_acquire) : 0;
  if (word == 0) {
    return true;
  }
  const frames_read read = read_frames(*which, bytes);
  const std::uint64_t more = bytes.size() + read.begun * static_cast<std::uint64_t>(frame_overhead);
  while (!which->word.compare_exchange_weak(word, word + more)) {
  }
  bool good = read.good;
  if (is_stranger(word)) {
    strangers_ahead.fetch_add(static_cast<std::int64_t>(more), std::memory_order_relaxed);
    good = good && (which->heard.load(std::memory_order_relaxed) || begins_well(*which, bytes));
  }
  good = good && is_within_bounds(word + more);
  cut.fetch_add(good ? 0 : 1, std::memory_order_relaxed);
  return good;
}

void meter_heard(int descriptor, std::size_t bytes, std::size_t parts) noexcept {
  connection* const which = find(descriptor);
  if (which == nullptr) {
    return;
  }
  const std::int64_t most = static_cast<std::int64_t>(bytes) + static_cast<std::int64_t>(parts) * part_overhead;
  std::uint64_t word = which->word.load(std::memory_order_relaxed);
  std::int64_t less = 0;
  do {
    less = std::min(ahead_of(word), most);
  } while (word != 0 && !which->word.compare_exchange_weak(word, word - static_cast<std::uint64_t>(less)));
  if (is_stranger(word)) {
    strangers_ahead.fetch_sub(less, std::memory_order_relaxed);
    which->heard.store(true, std::memory_order_relaxed);
  }
}

connection_name connection_at(int descriptor) noexcept {
  const connection* const which = find(descriptor);
  return {descriptor, which != nullptr ? generation_of(which->word.load(std::memory_order_relaxed)) : std::uint16_t{0}};
}

bool has_ended(const connection_name& name) noexcept {
  return name.generation != 0 && connection_at(name.descriptor).generation != name.generation;
}

void meter_client(const connection_name& name) noexcept {
  connection* const which = find(name.descriptor);
  if (which == nullptr || name.generation == 0) {
    return;
  }
  std::uint64_t word = which->word.load(std::memory_order_relaxed);
  const auto is_it = [&] { return is_stranger(word) && generation_of(word) == name.generation; };
  while (is_it() && !which->word.compare_exchange_weak(word, (word & ~whose) | client)) {
  }
  if (is_it()) {
    strangers_ahead.fetch_sub(ahead_of(word), std::memory_order_relaxed);
  }
}

void set_client_bytes(std::int64_t bytes) noexcept {
  client_bytes.store(bytes, std::memory_order_relaxed);
}

void set_request_bytes(std::int64_t bytes) noexcept {
  request_bytes.store(bytes, std::memory_order_relaxed);
}

std::uint64_t connections_cut() noexcept {
  return cut.load(std::memory_order_relaxed);
}

std::uint64_t bytes_let_go() noexcept {
  return let_go.load(std::memory_order_relaxed);
}

}  // namespace penstock
