#include "daemon/live/network/packet_stream.hpp"

#include <algorithm>

namespace penstock::live {
namespace {

// A number above is no count of packets since a beginning; an index made of it could overflow.
constexpr std::uint64_t max_counted_number = std::uint64_t{1} << 44U;

}  // namespace

packet_stream::packet_stream(stream_number stream, const reorder_window::settings& reorder, std::size_t sample_bytes)
    : stream_(stream), sample_bytes_(sample_bytes), window_(reorder) {}

void packet_stream::take(sample_receiver& receiver, const arrival& packet, time_point now) {
  receiver_ = &receiver;
  const std::size_t bytes = packet.samples.size();
  if (bytes % sample_bytes_ != 0 || bytes == 0) {
    receiver.malformed("a packet holds no whole number of samples");
    return;
  }
  if (bytes != packet_bytes_ && !packet.whole && packet_bytes_ != 0) {
    if (bytes < packet_bytes_) {
      receiver.malformed("a packet is cut short");
      return;
    }
    // Those before were cut short, or the sender was set up anew.
    epoch(receiver, "packets became longer", false);
    packet_bytes_ = 0;
  }
  if (packet_bytes_ == 0) {
    packet_bytes_ = bytes;
  }
  if (!started_) {
    start_at(packet.number);
  }
  const std::uint64_t duplicates = window_.account().duplicates;
  window_.take({packet.number, packet.samples, packet.time_ns, static_cast<std::uint32_t>(packet.quality)}, now, *this);
  if (window_.account().duplicates > duplicates) {
    receiver.duplicate(stream_, packet_samples());
  }
}

void packet_stream::run(sample_receiver& receiver, std::uint64_t number, std::span<const std::byte> samples,
                        std::int64_t time_ns, time_quality quality) {
  receiver.samples(stream_, {.bytes = samples, .at = index_of(number), .time_ns = time_ns, .quality = quality});
}

void packet_stream::in_order(const numbered_packet& packet, bool restored) {
  if (!started_) {
    start_at(packet.number);
  }
  const std::int64_t at = index_of(packet.number);
  if (packet.samples.size() != packet_bytes_) {
    // From here on the others are counted.
    base_number_ = packet.number + 1;
    base_index_ = at + static_cast<std::int64_t>(packet.samples.size() / sample_bytes_);
  }
  receiver_->samples(stream_, {.bytes = packet.samples,
                               .at = at,
                               .time_ns = packet.time_ns,
                               .quality = static_cast<time_quality>(packet.tag),
                               .restored = restored});
}

void packet_stream::lost(std::uint64_t /*first*/, std::uint64_t packets) {
  if (const std::uint64_t here = std::min(packets, dropped_); here > 0) {
    dropped_ -= here;
    receiver_->loss(stream_, loss_kind::kernel, here * packet_samples());
  }
}

void packet_stream::late(const numbered_packet& packet) {
  receiver_->samples(stream_, {.bytes = packet.samples,
                               .at = index_of(packet.number),
                               .time_ns = packet.time_ns,
                               .quality = static_cast<time_quality>(packet.tag)});
}

void packet_stream::restarted() {
  started_ = false;
  dropped_ = 0;
  receiver_->epoch(stream_, "the sender's numbers began again");
}

void packet_stream::start_at(std::uint64_t number) noexcept {
  started_ = true;
  base_number_ = number;
  base_index_ = number < max_counted_number ? static_cast<std::int64_t>(number * packet_samples()) : 0;
}

std::int64_t packet_stream::index_of(std::uint64_t number) const noexcept {
  return base_index_ + static_cast<std::int64_t>(number - base_number_) * static_cast<std::int64_t>(packet_samples());
}

void packet_stream::epoch(sample_receiver& receiver, std::string_view why, bool numbers_go_on) {
  flush(receiver);
  receiver.epoch(stream_, why);
  if (!numbers_go_on) {
    window_.restart();
    started_ = false;
    dropped_ = 0;
  }
}

void packet_stream::expire(sample_receiver& receiver, time_point now) {
  receiver_ = &receiver;
  window_.expire(now, *this);
}

void packet_stream::flush(sample_receiver& receiver) {
  receiver_ = &receiver;
  window_.flush(*this);
}

}  // namespace penstock::live
