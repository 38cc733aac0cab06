#include "daemon/live/wire/reorder_window.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <stdexcept>

namespace penstock::live {
namespace {

constexpr std::size_t max_packets = 65536;
constexpr std::size_t shortest_history = 1024;  // packets
constexpr std::size_t history_of_window = 16;

}  // namespace

reorder_window::reorder_window(const settings& how)
    : slots_(how.packets),
      memory_((how.packets + 1) * how.packet_bytes),
      packet_bytes_(how.packet_bytes),
      history_(std::max(shortest_history, std::min(how.packets, max_packets) * history_of_window) / 64),
      history_mask_(history_.size() * 64 - 1),
      max_wait_(how.max_wait),
      max_jump_(how.max_jump) {
  if (!std::has_single_bit(how.packets) || how.packets > max_packets) {
    throw std::invalid_argument("a reorder window is a power of two of packets, 65536 at most");
  }
}

void reorder_window::take(const numbered_packet& packet, time_point now, packet_sink& sink) {
  if (!started_) {
    start_at(packet.number);
  }
  const std::uint64_t ahead = packet.number - next_;
  if (ahead >= std::uint64_t{1} << 63U) {
    take_old(packet, sink);
    return;
  }
  if (ahead > std::max<std::uint64_t>(max_jump_, slots_.size())) {
    take_far(packet, sink);
    return;
  }
  if (ahead < slots_.size() && slots_[place_of(packet.number)].present) {
    ++account_.duplicates;
    return;
  }
  repeated_ = 0;
  if (ahead >= slots_.size()) {
    give_up_until(packet.number - slots_.size() + 1, sink);
    drain(sink);
  }
  if (packet.number != next_ && packet.samples.size() > packet_bytes_) {
    give_up_until(packet.number, sink);
  }
  if (packet.number == next_) {
    deliver(packet, ++arrivals_, sink);
    drain(sink);
  } else {
    hold(packet, now);
  }
}

void reorder_window::deliver(const numbered_packet& packet, std::uint64_t arrival, packet_sink& sink) {
  const bool restored = arrival < latest_;
  latest_ = std::max(latest_, arrival);
  assert(packet.number == next_);
  mark(packet.number, true);
  ++next_;
  ++account_.delivered;
  if (restored) {
    ++account_.restored;
  }
  sink.in_order(packet, restored);
}

void reorder_window::hold(const numbered_packet& packet, time_point now) {
  const std::size_t place = place_of(packet.number);
  slots_[place] = {true, packet.samples.size(), packet.time_ns, packet.tag, ++arrivals_, now};
  std::copy(packet.samples.begin(), packet.samples.end(),
            memory_.begin() + static_cast<std::ptrdiff_t>(place * packet_bytes_));
  if (held_ == 0 || now < waiting_since_) {
    waiting_since_ = now;
  }
  ++held_;
}

// The packet at the front, which is held.
void reorder_window::release(packet_sink& sink) {
  const std::size_t place = place_of(next_);
  slot& front = slots_[place];
  front.present = false;
  --held_;
  deliver({next_, std::span(memory_).subspan(place * packet_bytes_, front.bytes), front.time_ns, front.tag},
          front.arrival, sink);
}

// What is held before `number` is delivered, what is missing is lost.
void reorder_window::give_up_until(std::uint64_t number, packet_sink& sink) {
  while (next_ != number) {
    if (held_ > 0 && slots_[place_of(next_)].present) {
      release(sink);
      continue;
    }
    const std::uint64_t first = next_;
    std::uint64_t end = number;
    if (held_ > 0) {
      for (end = first + 1; end != number && !slots_[place_of(end)].present; ++end) {
      }
    }
    for (std::uint64_t each = end - first > history_mask_ ? end - history_mask_ - 1 : first; each != end; ++each) {
      mark(each, false);
    }
    next_ = end;
    account_.lost += end - first;
    sink.lost(first, end - first);
  }
}

void reorder_window::drain(packet_sink& sink) {
  if (held_ == 0) {
    return;
  }
  while (held_ > 0 && slots_[place_of(next_)].present) {
    release(sink);
  }
  see_who_waits();
}

void reorder_window::see_who_waits() noexcept {
  if (held_ == 0) {
    return;
  }
  waiting_since_ = time_point::max();
  for (const slot& each : slots_) {
    if (each.present) {
      waiting_since_ = std::min(waiting_since_, each.came);
    }
  }
}

void reorder_window::take_old(const numbered_packet& packet, packet_sink& sink) {
  const std::uint64_t behind = next_ - packet.number;
  if (behind > next_ - first_ && first_ - packet.number <= slots_.size()) {
    ++account_.strays;  // the first packet that came was not the first that was sent
    return;
  }
  if (behind > history_mask_ + 1 || behind > next_ - first_) {
    take_far(packet, sink);
    return;
  }
  if (!was_delivered(packet.number)) {
    mark(packet.number, true);
    --account_.lost;
    ++account_.late;
    repeated_ = 0;
    sink.late(packet);
    return;
  }
  ++account_.duplicates;
  // Nobody sends so many packets twice in a row: the sender began again, at a number not far below.
  repeated_ = packet.number == last_repeated_ + 1 ? repeated_ + 1 : 1;
  last_repeated_ = packet.number;
  if (repeated_ > 2 * slots_.size() + 1) {
    --account_.duplicates;
    flush(sink);
    ++account_.restarts;
    sink.restarted();
    start_at(packet.number);
    deliver(packet, ++arrivals_, sink);
  }
}

// Far ahead, or further back than anybody remembers: a stray, or the first of a sender that began again. Which one, the
// next packet shows.
void reorder_window::take_far(const numbered_packet& packet, packet_sink& sink) {
  const std::span<std::byte> place = std::span(memory_).last(packet_bytes_);
  if (probe_ && packet.number == probe_->number + 1) {
    const numbered_packet first = *probe_;
    flush(sink);
    ++account_.restarts;
    sink.restarted();
    start_at(first.number);
    deliver(first, ++arrivals_, sink);
    deliver(packet, ++arrivals_, sink);
    return;
  }
  if (probe_) {
    ++account_.strays;
  }
  probe_.reset();
  if (packet.samples.size() > packet_bytes_) {
    ++account_.strays;
    return;
  }
  std::copy(packet.samples.begin(), packet.samples.end(), place.begin());
  probe_ = packet;
  probe_->samples = place.first(packet.samples.size());
}

void reorder_window::start_at(std::uint64_t number) noexcept {
  std::fill(history_.begin(), history_.end(), 0);
  started_ = true;
  first_ = number;
  next_ = number;
  repeated_ = 0;
  probe_.reset();
}

void reorder_window::expire(time_point now, packet_sink& sink) {
  while (held_ > 0 && now - waiting_since_ >= max_wait_) {
    std::uint64_t end = next_;
    while (!slots_[place_of(end)].present) {
      ++end;
    }
    give_up_until(end, sink);
    drain(sink);
  }
}

void reorder_window::flush(packet_sink& sink) {
  while (held_ > 0) {
    std::uint64_t end = next_;
    while (!slots_[place_of(end)].present) {
      ++end;
    }
    give_up_until(end, sink);
    release(sink);
  }
}

void reorder_window::restart() noexcept {
  assert(held_ == 0);
  started_ = false;
}

reorder_window::time_point reorder_window::wanted_at() const noexcept {
  return held_ > 0 ? waiting_since_ + max_wait_ : time_point::max();
}

}  // namespace penstock::live
