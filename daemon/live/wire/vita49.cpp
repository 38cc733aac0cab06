#include "daemon/live/wire/vita49.hpp"

#include <cmath>

#include "daemon/live/wire/byte_order.hpp"

namespace penstock::live {
namespace {

constexpr std::size_t word = 4;
constexpr std::uint64_t picoseconds_per_second = 1'000'000'000'000;
constexpr std::int64_t vita_second_ns = 1'000'000'000;
// GPS time began on 1980-01-06, and is 18 leap seconds ahead since 2017.
constexpr std::int64_t gps_to_utc_seconds = 315'964'800 - 18;

double fixed_point(std::uint64_t value, int radix) noexcept {
  return std::ldexp(static_cast<double>(static_cast<std::int64_t>(value)), -radix);
}

std::optional<bool> enabled(std::uint32_t state, unsigned bit) noexcept {
  return (state >> (bit + 12U) & 1U) != 0 ? std::optional((state >> bit & 1U) != 0) : std::nullopt;
}

vita_payload_format format_of(std::uint32_t first, std::uint32_t second) noexcept {
  vita_payload_format format;
  format.link_efficient = (first >> 31U & 1U) != 0;
  format.number = static_cast<vita_payload_format::number_of>(first >> 29U & 3U);
  format.item = static_cast<std::uint8_t>(first >> 24U & 0x1FU);
  format.tag_bits = static_cast<std::uint8_t>((first >> 20U & 7U) + (first >> 16U & 0xFU));
  format.packed_bits = static_cast<std::uint8_t>((first >> 6U & 0x3FU) + 1U);
  format.item_bits = static_cast<std::uint8_t>((first & 0x3FU) + 1U);
  format.vector_size = static_cast<std::uint16_t>(second & 0xFFFFU);
  return format;
}

}  // namespace

std::string_view text_of(vita_fault fault) noexcept {
  switch (fault) {
    case vita_fault::none:
      return "";
    case vita_fault::truncated:
      return "a VITA-49 packet is cut short";
    case vita_fault::size:
      return "a VITA-49 packet is smaller than its header";
    case vita_fault::unknown_kind:
      return "a VITA-49 packet is of an unknown type";
    case vita_fault::fraction:
      return "a VITA-49 packet has a fraction of a second or more";
  }
  return "";
}

vita_fault read_vita_header(std::span<const std::byte> head, std::size_t datagram_bytes, vita_packet& out) noexcept {
  out = {};
  byte_reader in(head);
  const auto header = in.big<std::uint32_t>();
  if (in.failed()) {
    return vita_fault::truncated;
  }
  const std::uint32_t kind = header >> 28U;
  if (kind > static_cast<std::uint32_t>(vita_packet::kind_of::extension_command)) {
    return vita_fault::unknown_kind;
  }
  out.kind = static_cast<vita_packet::kind_of>(kind);
  out.indicators = static_cast<std::uint8_t>(header >> 24U & 7U);
  out.seconds_kind = static_cast<vita_packet::seconds_of>(header >> 22U & 3U);
  out.fraction_kind = static_cast<vita_packet::fraction_of>(header >> 20U & 3U);
  out.count = static_cast<std::uint8_t>(header >> 16U & 0xFU);
  if (out.kind != vita_packet::kind_of::data_without_stream &&
      out.kind != vita_packet::kind_of::extension_data_without_stream) {
    out.stream = in.big<std::uint32_t>();
  }
  if ((header >> 27U & 1U) != 0) {
    const auto first = in.big<std::uint32_t>();
    const auto second = in.big<std::uint32_t>();
    out.class_id = {.pad_bits = static_cast<std::uint8_t>(first >> 27U),
                    .oui = first & 0xFFFFFFU,
                    .information = static_cast<std::uint16_t>(second >> 16U),
                    .packet = static_cast<std::uint16_t>(second)};
  }
  if (out.seconds_kind != vita_packet::seconds_of::none) {
    out.seconds = in.big<std::uint32_t>();
  }
  if (out.fraction_kind != vita_packet::fraction_of::none) {
    out.fraction = in.big<std::uint64_t>();
  }
  out.header_bytes = head.size() - in.rest().size();
  const bool data = kind <= static_cast<std::uint32_t>(vita_packet::kind_of::extension_data);
  out.has_trailer = data && (header >> 26U & 1U) != 0;
  const std::size_t bytes = (header & 0xFFFFU) * word;
  const std::size_t around = out.header_bytes + (out.has_trailer ? word : 0);
  if (bytes > datagram_bytes) {
    return vita_fault::truncated;
  }
  if (in.failed() || around > bytes) {
    return vita_fault::size;
  }
  out.payload_bytes = bytes - around;
  if (out.fraction_kind == vita_packet::fraction_of::picoseconds && out.fraction >= picoseconds_per_second) {
    return vita_fault::fraction;
  }
  return vita_fault::none;
}

vita_fault read_vita_packet(std::span<const std::byte> datagram, vita_packet& out) noexcept {
  const vita_fault fault = read_vita_header(datagram, datagram.size(), out);
  if (fault != vita_fault::none) {
    return fault;
  }
  out.payload = datagram.subspan(out.header_bytes, out.payload_bytes);
  if (out.has_trailer) {
    out.trailer = byte_reader(datagram.subspan(out.header_bytes + out.payload_bytes)).big<std::uint32_t>();
  }
  return vita_fault::none;
}

std::optional<std::int64_t> vita_packet::time_ns(double sample_rate, bool other_is_posix) const noexcept {
  std::int64_t whole = seconds;
  switch (seconds_kind) {
    case seconds_of::none:
      return std::nullopt;
    case seconds_of::utc:
      break;
    case seconds_of::gps:
      whole += gps_to_utc_seconds;
      break;
    case seconds_of::other:
      if (!other_is_posix) {
        return std::nullopt;
      }
      break;
  }
  whole *= vita_second_ns;
  switch (fraction_kind) {
    case fraction_of::none:
    case fraction_of::free_running:
      return whole;
    case fraction_of::picoseconds:
      return whole + static_cast<std::int64_t>(fraction / 1000);
    case fraction_of::sample_count:
      // The count begins again with each second.
      return sample_rate > 0 && static_cast<double>(fraction) < 2 * sample_rate
                 ? std::optional(whole + std::llround(static_cast<double>(fraction) / sample_rate * 1e9))
                 : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> vita_packet::samples_since(const vita_packet& earlier, double sample_rate) const noexcept {
  if (fraction_kind != earlier.fraction_kind || seconds_kind != earlier.seconds_kind) {
    return std::nullopt;
  }
  const bool has_seconds = seconds_kind != seconds_of::none;
  const double whole = has_seconds ? static_cast<double>(seconds) - static_cast<double>(earlier.seconds) : 0;
  const auto part = static_cast<double>(static_cast<std::int64_t>(fraction - earlier.fraction));
  switch (fraction_kind) {
    case fraction_of::none:
    case fraction_of::free_running:
      return std::nullopt;  // whole seconds are too coarse, and a free-running count is of anything
    case fraction_of::picoseconds:
      return has_seconds && sample_rate > 0 ? std::optional((whole + part * 1e-12) * sample_rate) : std::nullopt;
    case fraction_of::sample_count:
      if (whole != 0 && !(sample_rate > 0)) {
        return std::nullopt;
      }
      return whole * sample_rate + part;
  }
  return std::nullopt;
}

std::optional<bool> vita_packet::indicator(unsigned bit) const noexcept {
  return trailer ? enabled(*trailer, bit) : std::nullopt;
}

bool vita_payload_format::is_plain() const noexcept {
  const bool whole = packed_bits == 8 || packed_bits == 16 || packed_bits == 32 || packed_bits == 64;
  return whole && item_bits == packed_bits && tag_bits == 0 &&
         (number == number_of::real || number == number_of::complex);
}

std::optional<bool> vita_context::reference_lock() const noexcept {
  return state ? enabled(*state, 17) : std::nullopt;
}

std::optional<vita_context> read_vita_context(const vita_packet& packet) noexcept {
  byte_reader in(packet.payload);
  vita_context read;
  read.fields = in.big<std::uint32_t>();
  const auto said = [&](unsigned bit) { return (read.fields >> bit & 1U) != 0; };
  if (said(7)) {
    return std::nullopt;
  }
  for (const unsigned further : {1U, 2U, 3U}) {
    if (said(further)) {
      (void)in.take(word);
    }
  }
  const auto hertz = [&](unsigned bit, std::optional<double>& value) {
    if (said(bit)) {
      value = fixed_point(in.big<std::uint64_t>(), 20);
    }
  };
  const auto skip = [&](unsigned bit, std::size_t words) {
    if (said(bit)) {
      (void)in.take(words * word);
    }
  };
  skip(30, 1);  // reference point
  hertz(29, read.bandwidth);
  hertz(28, read.if_frequency);
  hertz(27, read.rf_frequency);
  skip(26, 2);  // offset of the RF frequency
  skip(25, 2);  // offset of the IF band
  if (said(24)) {
    const auto level = static_cast<std::int16_t>(in.big<std::uint32_t>() & 0xFFFFU);
    read.reference_level_dbm = std::ldexp(static_cast<double>(level), -7);
  }
  skip(23, 1);  // gain
  if (said(22)) {
    read.over_ranges = in.big<std::uint32_t>();
  }
  hertz(21, read.sample_rate);
  if (said(20)) {
    read.time_adjustment_fs = static_cast<std::int64_t>(in.big<std::uint64_t>());
  }
  if (said(19)) {
    read.calibrated_at = in.big<std::uint32_t>();
  }
  skip(18, 1);  // temperature
  skip(17, 2);  // device
  if (said(16)) {
    read.state = in.big<std::uint32_t>();
  }
  if (said(15)) {
    const auto first = in.big<std::uint32_t>();
    read.format = format_of(first, in.big<std::uint32_t>());
  }
  // What follows (positions, lists of streams) is of no use here.
  return in.failed() ? std::nullopt : std::optional(read);
}

}  // namespace penstock::live
