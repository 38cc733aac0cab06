#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/live/sample_stream.hpp"
#include "daemon/live/wire/reorder_window.hpp"

namespace penstock::live {

/// One stream of numbered packets of equally many samples: puts them in order, finds the index of each, and says where
/// samples were lost. Indices are number × samples of a packet where the numbers begin again only after 64 bits, and 0
/// for the first packet otherwise. Allocates only when it is made. Thread: that of the source.
class packet_stream final : private packet_sink {
 public:
  using time_point = sample_reader::time_point;

  packet_stream(stream_number stream, const reorder_window::settings& reorder, std::size_t sample_bytes);

  struct arrival {
    std::uint64_t number = 0;
    std::span<const std::byte> samples;
    std::int64_t time_ns = 0;  ///< of the first sample
    time_quality quality = time_quality::none;
    bool whole = false;  ///< known to be as long as it was sent
  };
  void take(sample_receiver& receiver, const arrival& packet, time_point now);

  /// True when the packet is the next one, as long as usual, and none is held: then it is taken, and the caller hands
  /// it to `run` with those before and behind it.
  [[nodiscard]] bool passes(std::uint64_t number, std::size_t bytes) noexcept {
    return bytes == packet_bytes_ && window_.passes(number);
  }
  /// Packets that passed, one behind the other; the first has this number.
  void run(sample_receiver& receiver, std::uint64_t number, std::span<const std::byte> samples, std::int64_t time_ns,
           time_quality quality);

  /// So many packets were dropped by the kernel: of what is missing next, so many are its.
  void dropped_by_kernel(std::uint64_t packets) noexcept { dropped_ += packets; }
  /// Hands on what is held, and begins a new epoch. The numbers go on if `numbers_go_on`.
  void epoch(sample_receiver& receiver, std::string_view why, bool numbers_go_on);
  void expire(sample_receiver& receiver, time_point now);
  void flush(sample_receiver& receiver);

  [[nodiscard]] stream_number stream() const noexcept { return stream_; }
  [[nodiscard]] const reorder_window& window() const noexcept { return window_; }
  /// Bytes of samples in almost all packets; 0 before the first.
  [[nodiscard]] std::size_t packet_bytes() const noexcept { return packet_bytes_; }
  [[nodiscard]] std::size_t packet_samples() const noexcept { return packet_bytes_ / sample_bytes_; }

 private:
  void in_order(const numbered_packet& packet, bool restored) override;
  void lost(std::uint64_t first, std::uint64_t packets) override;
  void late(const numbered_packet& packet) override;
  void restarted() override;
  void start_at(std::uint64_t number) noexcept;
  [[nodiscard]] std::int64_t index_of(std::uint64_t number) const noexcept;

  stream_number stream_;
  std::size_t sample_bytes_;
  reorder_window window_;
  std::size_t packet_bytes_ = 0;
  std::uint64_t base_number_ = 0;
  std::int64_t base_index_ = 0;
  bool started_ = false;
  std::uint64_t dropped_ = 0;
  sample_receiver* receiver_ = nullptr;  // during a call
};

}  // namespace penstock::live
