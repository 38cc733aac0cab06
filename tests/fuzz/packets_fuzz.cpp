// What datagrams are read as: one input is a framing (a byte), then datagrams, each behind its length (a byte; words of
// 4 bytes). VITA-49, DIFI and the numbered packets of UDP go on through a reorder window. Whatever is taken must lie
// within its datagram, and samples must come out in order and add up.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/live/network/packet_stream.hpp"
#include "daemon/live/wire/difi.hpp"
#include "daemon/live/wire/rtl_tcp.hpp"
#include "daemon/live/wire/sequence_header.hpp"
#include "daemon/live/wire/vita49.hpp"

namespace penstock::live {
namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

class counting_receiver final : public sample_receiver {
 public:
  std::optional<stream_number> stream(std::string_view) override { return 0; }
  void samples(stream_number, const sample_run& run) override {
    require(run.at.has_value() && !run.bytes.empty() && run.bytes.size() % 4 == 0);
    const auto count = static_cast<std::int64_t>(run.bytes.size() / 4);
    if (next_ && *run.at < *next_) {
      return;  // late
    }
    next_ = *run.at + count;
    last_ = run.bytes.back();
  }
  std::span<std::byte> room(stream_number) override { return {}; }
  void loss(stream_number, loss_kind, std::uint64_t samples) override { require(samples > 0); }
  void epoch(stream_number, std::string_view) override { next_.reset(); }
  void duplicate(stream_number, std::uint64_t samples) override { require(samples > 0); }
  void suspect(stream_number) override {}
  void malformed(std::string_view why) override { require(!why.empty()); }
  void connected(bool, std::string_view) override {}

 private:
  std::optional<std::int64_t> next_;
  std::byte last_{};
};

class one_input {
 public:
  explicit one_input(std::uint8_t framing) : framing_(framing) {}

  void take(std::span<const std::byte> datagram) {
    now_ += std::chrono::microseconds{300};
    if (framing_ % 6 < 5) {
      take_numbered(static_cast<sequence_format>(framing_ % 6), datagram);
    } else {
      take_vita(datagram);
    }
    stream_.expire(receiver_, now_);
    (void)read_rtl_tcp_greeting(datagram);
  }
  void finish() {
    stream_.flush(receiver_);
    require(stream_.window().held() == 0);
    require(stream_.window().wanted_at() == sample_reader::time_point::max());
  }

 private:
  void take_numbered(sequence_format format, std::span<const std::byte> datagram) {
    const auto header = read_sequence_header(format, datagram, datagram.size());
    if (!header) {
      return;
    }
    require(header->header_bytes + header->payload_bytes == datagram.size());
    give(extend_number(header->number, header->number_bits, stream_.window().next()),
         datagram.subspan(header->header_bytes), header->sized);
  }
  void take_vita(std::span<const std::byte> datagram) {
    vita_packet packet;
    if (read_vita_packet(datagram, packet) != vita_fault::none) {
      return;
    }
    vita_packet again;
    require(read_vita_header(datagram.first(std::min(datagram.size(), max_vita_header_bytes)), datagram.size(),
                             again) == vita_fault::none);
    require(again.payload_bytes == packet.payload.size() && again.header_bytes == packet.header_bytes);
    require(packet.header_bytes + packet.payload.size() + (packet.trailer ? 4 : 0) <= datagram.size());
    (void)packet.time_ns(rate_, framing_ % 2 == 0);
    (void)packet.sample_loss();
    std::uint64_t expected = stream_.window().next();
    if (const std::optional<double> samples = packet.samples_since(last_, rate_);
        samples && std::abs(*samples) < 1e12) {
      expected += static_cast<std::uint64_t>(static_cast<std::int64_t>(*samples) / 16);
    }
    const difi_packet difi = classify_difi(packet);
    require(difi != difi_packet::data || packet.is_data());
    if (const std::optional<vita_context> context = read_vita_context(packet)) {
      rate_ = context->sample_rate.value_or(rate_);
      (void)context->reference_lock();
      if (context->format) {
        (void)context->format->is_plain();
      }
      if (context->changed()) {
        stream_.epoch(receiver_, "changed", framing_ % 4 < 2);
      }
    }
    if (packet.is_data()) {
      give(extend_number(packet.count, 4, expected), packet.payload, true);
      last_ = packet;
      last_.payload = {};
    }
  }
  void give(std::uint64_t number, std::span<const std::byte> samples, bool whole) {
    const reorder_account before = stream_.window().account();
    if (stream_.passes(number, samples.size())) {
      stream_.run(receiver_, number, samples, 0, time_quality::none);
      return;
    }
    stream_.take(receiver_, {.number = number, .samples = samples, .whole = whole}, now_);
    const reorder_account& after = stream_.window().account();
    require(after.delivered >= before.delivered && after.late >= before.late);
    require(after.lost + 1 >= before.lost);
  }

  std::uint8_t framing_;
  counting_receiver receiver_;
  packet_stream stream_{0, {.packets = 4, .max_wait = std::chrono::milliseconds{1}, .packet_bytes = 256}, 4};
  vita_packet last_;
  double rate_ = 1e6;
  sample_reader::time_point now_{};
};

}  // namespace
}  // namespace penstock::live

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::live;
  if (size == 0) {
    return 0;
  }
  one_input input(data[0]);
  std::span<const std::byte> rest = std::as_bytes(std::span(data, size)).subspan(1);
  while (!rest.empty()) {
    const std::size_t length = std::min(rest.size() - 1, std::to_integer<std::size_t>(rest.front()) * 4);
    // Memory of its own, so that a sanitizer sees a read beyond it.
    const auto one = rest.subspan(1, length);
    const std::vector<std::byte> datagram(one.begin(), one.end());
    input.take(datagram);
    rest = rest.subspan(1 + length);
  }
  input.finish();
  return 0;
}
