#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace penstock::live {

/// Headers of datagrams that have a number and samples.
enum class sequence_format : std::uint8_t {
  sequence,      ///< u64 little-endian
  sequence_big,  ///< u64 big-endian
  /// GNU Radio's UDP sink, "64-bit Sequence Number": u64 in the order of the sender's machine (little-endian is read).
  gnuradio,
  /// GNU Radio's UDP sink, "Sequence + 16-bit data size": the same, u16 size of the datagram, 6 bytes of anything.
  gnuradio_sized,
  /// The 64-bit compressed header of Ettus' FPGAs, big-endian: 63 control, 61 has a time, 60 end of burst, 59-48
  /// number, 47-32 bytes with the header, 31-0 stream; then u64 ticks where it has a time.
  chdr,
};

struct sequence_header {
  std::uint64_t number = 0;
  unsigned number_bits = 64;  ///< after so many bits it begins again
  std::size_t header_bytes = 0;
  std::size_t payload_bytes = 0;
  bool sized = false;                    ///< the header says how long the datagram is, and it is
  bool control = false;                  ///< no samples
  std::uint32_t stream = 0;              ///< chdr
  std::optional<std::uint64_t> ticks{};  ///< chdr
};

/// Bytes before the samples in almost all datagrams.
[[nodiscard]] std::size_t usual_header_bytes(sequence_format format) noexcept;

/// Reads the header at the beginning of a datagram, `head`; the datagram has `datagram_bytes`. nullopt where it is
/// shorter than its header, or not as long as the header says.
[[nodiscard]] std::optional<sequence_header> read_sequence_header(sequence_format format,
                                                                  std::span<const std::byte> head,
                                                                  std::size_t datagram_bytes) noexcept;

/// The number that begins again after `bits` bits and is `low` there, as near to `expected` as there is one.
[[nodiscard]] std::uint64_t extend_number(std::uint64_t low, unsigned bits, std::uint64_t expected) noexcept;

}  // namespace penstock::live
