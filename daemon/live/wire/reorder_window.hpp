#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace penstock::live {

/// A packet of samples and its number. Numbers go up by one.
struct numbered_packet {
  std::uint64_t number = 0;
  std::span<const std::byte> samples;
  std::int64_t time_ns = 0;  ///< handed through
  std::uint32_t tag = 0;     ///< handed through
};

/// What comes out of a reorder window. No call is kept beyond its end; none may call the window.
class packet_sink {
 public:
  virtual ~packet_sink() = default;
  /// The next packet in order. `restored`: it came before a packet of a smaller number, and was held for that.
  virtual void in_order(const numbered_packet& packet, bool restored) = 0;
  /// `packets` from `first` on are given up; the packet behind them comes next.
  virtual void lost(std::uint64_t first, std::uint64_t packets) = 0;
  /// One that had been given up. It is late, not lost.
  virtual void late(const numbered_packet& packet) = 0;
  /// The sender began again: numbers have nothing to do with those before.
  virtual void restarted() = 0;
};

/// Packets of a window in numbers. At any time: from the first number to the next one expected there are
/// delivered + lost + late.
struct reorder_account {
  std::uint64_t delivered = 0;
  std::uint64_t lost = 0;
  std::uint64_t late = 0;
  std::uint64_t duplicates = 0;  ///< were there already, or are still held; dropped
  std::uint64_t restored = 0;    ///< of those delivered
  std::uint64_t strays = 0;      ///< before the first, or far from what was expected and none followed; dropped
  std::uint64_t restarts = 0;

  bool operator==(const reorder_account&) const = default;
};

/// Puts numbered packets in order. A packet that comes before its turn is held until those before it come, until it
/// has waited `max_wait`, or until one comes that is a whole window ahead; then the missing ones are lost. Packets in
/// order are not copied. Knows no clock and no socket; allocates only when it is made. Thread: any one.
class reorder_window {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  struct settings {
    std::size_t packets = 64;  ///< how far a packet may be ahead and be held: a power of two, 1 to 65536; 1 holds none
    std::chrono::nanoseconds max_wait{2'000'000};
    std::size_t packet_bytes = 65536;  ///< a larger packet is never held: what is before it is lost
    /// A packet further ahead is believed only when the next one follows it.
    std::uint64_t max_jump = 1U << 20U;
  };

  /// Throws std::invalid_argument for a number of packets that is not as above.
  explicit reorder_window(const settings& how);

  /// A packet came. It and what it releases go to `sink`.
  void take(const numbered_packet& packet, time_point now, packet_sink& sink);
  /// The way of almost all packets: true when the packet is the next one and none is held. Then it counts as delivered,
  /// and the caller sees to it. False: it did not count; `take` it.
  [[nodiscard]] bool passes(std::uint64_t number) noexcept {
    if (held_ != 0 || number != next_ || !started_) {
      return false;
    }
    mark(number, true);
    ++next_;
    ++account_.delivered;
    repeated_ = 0;
    return true;
  }
  /// Gives up what held packets have waited for too long.
  void expire(time_point now, packet_sink& sink);
  /// Lets go of all that is held.
  void flush(packet_sink& sink);
  /// Forgets where the numbers were: the next packet is a first one. What is held must have been flushed.
  void restart() noexcept;

  /// When `expire` will have something to do.
  [[nodiscard]] time_point wanted_at() const noexcept;
  [[nodiscard]] bool started() const noexcept { return started_; }
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }
  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  [[nodiscard]] const reorder_account& account() const noexcept { return account_; }

 private:
  struct slot {
    bool present = false;
    std::size_t bytes = 0;
    std::int64_t time_ns = 0;
    std::uint32_t tag = 0;
    std::uint64_t arrival = 0;
    time_point came{};
  };

  [[nodiscard]] std::size_t place_of(std::uint64_t number) const noexcept { return number & (slots_.size() - 1); }
  [[nodiscard]] bool was_delivered(std::uint64_t number) const noexcept {
    return (history_[(number & history_mask_) / 64] >> (number % 64) & 1U) != 0;
  }
  void mark(std::uint64_t number, bool delivered) noexcept {
    std::uint64_t& word = history_[(number & history_mask_) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (number % 64);
    word = delivered ? word | bit : word & ~bit;
  }
  void deliver(const numbered_packet& packet, std::uint64_t arrival, packet_sink& sink);
  void hold(const numbered_packet& packet, time_point now);
  void release(packet_sink& sink);
  void give_up_until(std::uint64_t number, packet_sink& sink);
  void drain(packet_sink& sink);
  void take_old(const numbered_packet& packet, packet_sink& sink);
  void take_far(const numbered_packet& packet, packet_sink& sink);
  void start_at(std::uint64_t number) noexcept;
  void see_who_waits() noexcept;

  std::vector<slot> slots_;
  std::vector<std::byte> memory_;  // a packet for each slot, and one for the probe
  std::size_t packet_bytes_;
  std::vector<std::uint64_t> history_;  // a bit for each of the last numbers: delivered
  std::uint64_t history_mask_;
  std::chrono::nanoseconds max_wait_;
  std::uint64_t max_jump_;

  bool started_ = false;
  std::uint64_t first_ = 0;
  std::uint64_t next_ = 0;
  std::size_t held_ = 0;
  std::uint64_t arrivals_ = 0;  // packets that were held or handed over, but for those that passed
  std::uint64_t latest_ = 0;    // arrival of those handed over
  time_point waiting_since_{};
  std::optional<numbered_packet> probe_;  // far away; its samples lie in memory_
  std::uint64_t last_repeated_ = 0;
  std::uint64_t repeated_ = 0;  // duplicates one behind the other
  reorder_account account_;
};

}  // namespace penstock::live
