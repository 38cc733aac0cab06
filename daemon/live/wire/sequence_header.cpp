#include "daemon/live/wire/sequence_header.hpp"

#include "daemon/live/wire/byte_order.hpp"

namespace penstock::live {
namespace {

constexpr std::size_t sized_padding = 6;

bool read_gnuradio_size(byte_reader& in, std::size_t datagram_bytes, sequence_header& out) noexcept {
  const std::size_t bytes = in.little<std::uint16_t>();
  (void)in.take(sized_padding);
  out.sized = true;
  return bytes == datagram_bytes;
}

bool read_chdr(byte_reader& in, std::size_t datagram_bytes, sequence_header& out) noexcept {
  const auto word = in.big<std::uint64_t>();
  out.control = (word >> 63U & 1U) != 0;
  out.number = word >> 48U & 0xFFFU;
  out.number_bits = 12;
  out.stream = static_cast<std::uint32_t>(word);
  if ((word >> 61U & 1U) != 0) {
    out.ticks = in.big<std::uint64_t>();
  }
  out.sized = true;
  return (word >> 32U & 0xFFFFU) == datagram_bytes;
}

}  // namespace

std::size_t usual_header_bytes(sequence_format format) noexcept {
  switch (format) {
    case sequence_format::sequence:
    case sequence_format::sequence_big:
    case sequence_format::gnuradio:
      return 8;
    case sequence_format::gnuradio_sized:
    case sequence_format::chdr:
      return 16;
  }
  return 8;
}

std::optional<sequence_header> read_sequence_header(sequence_format format, std::span<const std::byte> head,
                                                    std::size_t datagram_bytes) noexcept {
  byte_reader in(head);
  sequence_header read;
  bool fits = true;
  switch (format) {
    case sequence_format::sequence:
    case sequence_format::gnuradio:
      read.number = in.little<std::uint64_t>();
      break;
    case sequence_format::sequence_big:
      read.number = in.big<std::uint64_t>();
      break;
    case sequence_format::gnuradio_sized:
      read.number = in.little<std::uint64_t>();
      fits = read_gnuradio_size(in, datagram_bytes, read);
      break;
    case sequence_format::chdr:
      fits = read_chdr(in, datagram_bytes, read);
      break;
  }
  if (in.failed() || !fits) {
    return std::nullopt;
  }
  read.header_bytes = head.size() - in.rest().size();
  read.payload_bytes = datagram_bytes - read.header_bytes;
  return read;
}

std::uint64_t extend_number(std::uint64_t low, unsigned bits, std::uint64_t expected) noexcept {
  if (bits >= 64) {
    return low;
  }
  const std::uint64_t round = std::uint64_t{1} << bits;
  const std::uint64_t ahead = (low - expected) & (round - 1);
  return ahead <= round / 2 ? expected + ahead : expected + ahead - round;
}

}  // namespace penstock::live
