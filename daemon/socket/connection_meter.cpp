#include "daemon/socket/connection_meter.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace penstock {
namespace {

// One connection, in one word: whose it is, which one of its descriptor, and how many bytes it is ahead.
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
  std::atomic<bool> heard{false};  // a whole message: what it begins with has been looked at
  // Of the thread that reads it.
  std::uint16_t generation = 0;
  std::uint32_t position = 0;
  std::uint8_t matched = 0;
  std::uint8_t greeting_left = 0;
  std::uint8_t header_bytes = 0;
  std::uint8_t first_frames = 0;
  std::array<std::uint8_t, 9> header{};
  std::uint64_t frame_left = 0;
};

std::array<connection, metered_descriptors> connections;
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

// A property of READY: its name behind its length, and of its value the length and the first byte.
constexpr std::array<std::uint8_t, 14> reserved_identity{8, 'I', 'd', 'e', 'n', 't', 'i', 't', 'y', 0, 0, 0, 5, 0};
// Of the greeting.
constexpr std::uint8_t greeting_size = 64;
constexpr std::uint32_t signature_at = 0;
constexpr std::uint8_t signature = 0xFF;
constexpr std::uint32_t versioned_at = 9;
constexpr std::uint32_t major_at = 10;
constexpr std::uint8_t lowest_major = 3;

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

// The pattern's first byte comes in it only once, so that a mismatch needs no table.
bool begins_well(connection& which, std::span<const std::byte> bytes) noexcept {
  for (const std::byte each : bytes) {
    const auto byte = std::to_integer<std::uint8_t>(each);
    if (!is_good_greeting(which.position, byte)) {
      return false;
    }
    ++which.position;
    which.matched = byte == reserved_identity[which.matched] ? static_cast<std::uint8_t>(which.matched + 1)
                    : byte == reserved_identity[0]           ? std::uint8_t{1}
                                                             : std::uint8_t{0};
    if (which.matched == reserved_identity.size()) {
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
frames_read read_frames(connection& which, std::span<const std::byte> bytes) noexcept {
  constexpr std::uint8_t long_flag = 2;
  constexpr std::uint8_t handshake_frames = 2;
  frames_read read;
  std::size_t at = std::min<std::size_t>(which.greeting_left, bytes.size());
  which.greeting_left = static_cast<std::uint8_t>(which.greeting_left - at);
  while (at < bytes.size()) {
    if (which.frame_left > 0) {
      const std::uint64_t body = std::min<std::uint64_t>(which.frame_left, bytes.size() - at);
      which.frame_left -= body;
      at += body;
      continue;
    }
    which.header[which.header_bytes++] = std::to_integer<std::uint8_t>(bytes[at++]);
    const bool is_long = (which.header[0] & long_flag) != 0;
    if (which.header_bytes < (is_long ? which.header.size() : 2)) {
      continue;
    }
    for (std::size_t byte = 1; byte < which.header_bytes; ++byte) {
      which.frame_left = which.frame_left << 8U | which.header[byte];
    }
    which.header_bytes = 0;
    ++read.begun;
    if (which.first_frames < handshake_frames) {
      ++which.first_frames;
      read.good = read.good && which.frame_left <= static_cast<std::uint64_t>(greeting_bytes);
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

void begin_metering(int descriptor) noexcept {
  if (connection* const which = find(descriptor)) {
    // Another thread may have read the one before: it has let go of it by this word.
    (void)which->word.load(std::memory_order_acquire);
    which->position = 0;
    which->matched = 0;
    which->greeting_left = greeting_size;
    which->header_bytes = 0;
    which->first_frames = 0;
    which->frame_left = 0;
    which->heard.store(false, std::memory_order_relaxed);
    which->generation = std::max<std::uint16_t>(1, static_cast<std::uint16_t>(which->generation + 1));
    which->word.store(stranger | std::uint64_t{which->generation} << generation_shift, std::memory_order_release);
  }
}

bool is_metered(int descriptor) noexcept {
  const connection* const which = find(descriptor);
  return which != nullptr && which->word.load(std::memory_order_relaxed) != 0;
}

bool end_metering(int descriptor) noexcept {
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

bool has_ended(const connection_name& which) noexcept {
  return which.generation != 0 && connection_at(which.descriptor).generation != which.generation;
}

void meter_client(const connection_name& who) noexcept {
  connection* const which = find(who.descriptor);
  if (which == nullptr || who.generation == 0) {
    return;
  }
  std::uint64_t word = which->word.load(std::memory_order_relaxed);
  const auto is_it = [&] { return is_stranger(word) && generation_of(word) == who.generation; };
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
