#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace penstock::live {

/// A packet of the VITA Radio Transport, ANSI/VITA-49.0 and 49.2. Everything is big-endian, in words of 32 bits:
///   header    31-28 type, 27 class id, 26-24 by type (data: 26 trailer), 23-22 TSI, 21-20 TSF, 19-16 count, 15-0 size
///   stream id (types 1, 3, 4 and above), class id (2 words), seconds (TSI not 0), fraction (2 words, TSF not 0)
///   payload, then the trailer where there is one
struct vita_packet {
  enum class kind_of : std::uint8_t {
    data_without_stream = 0,
    data = 1,
    extension_data_without_stream = 2,
    extension_data = 3,
    context = 4,
    extension_context = 5,
    command = 6,
    extension_command = 7,
  };
  enum class seconds_of : std::uint8_t { none = 0, utc = 1, gps = 2, other = 3 };
  enum class fraction_of : std::uint8_t { none = 0, sample_count = 1, picoseconds = 2, free_running = 3 };
  struct class_identifier {
    std::uint8_t pad_bits = 0;  ///< at the end of the payload
    std::uint32_t oui = 0;
    std::uint16_t information = 0;
    std::uint16_t packet = 0;

    bool operator==(const class_identifier&) const = default;
  };

  kind_of kind = kind_of::data;
  seconds_of seconds_kind = seconds_of::none;
  fraction_of fraction_kind = fraction_of::none;
  std::uint8_t indicators = 0;  ///< bits 26-24 of the header
  std::uint8_t count = 0;       ///< of 16, for each stream and kind of packet
  std::optional<std::uint32_t> stream{};
  std::optional<class_identifier> class_id{};
  std::uint32_t seconds = 0;
  std::uint64_t fraction = 0;
  std::size_t header_bytes = 0;
  std::size_t payload_bytes = 0;
  bool has_trailer = false;
  // Of a whole packet:
  std::optional<std::uint32_t> trailer{};
  std::span<const std::byte> payload{};

  [[nodiscard]] bool is_data() const noexcept { return kind == kind_of::data || kind == kind_of::data_without_stream; }
  /// Of the first sample, since 1970 UTC. nullopt where it is not said in seconds, or the rate would be needed and is
  /// not known (0).
  [[nodiscard]] std::optional<std::int64_t> time_ns(double sample_rate, bool other_is_posix) const noexcept;
  /// Samples from the time of `earlier` to that of this packet. nullopt where their times say nothing of it.
  [[nodiscard]] std::optional<double> samples_since(const vita_packet& earlier, double sample_rate) const noexcept;
  /// What the trailer says; nullopt where it does not.
  [[nodiscard]] std::optional<bool> sample_loss() const noexcept { return indicator(12); }
  [[nodiscard]] std::optional<bool> reference_lock() const noexcept { return indicator(17); }
  [[nodiscard]] std::optional<bool> valid_data() const noexcept { return indicator(18); }

 private:
  [[nodiscard]] std::optional<bool> indicator(unsigned bit) const noexcept;
};

enum class vita_fault : std::uint8_t {
  none,
  truncated,     ///< the datagram ends before the header, or before the packet's size
  size,          ///< the size leaves no room for the header and trailer
  unknown_kind,  ///< types 8 to 15
  fraction,      ///< a second or more in picoseconds
};
[[nodiscard]] std::string_view text_of(vita_fault fault) noexcept;

/// Reads the header alone: `head` is the beginning of the datagram, of which there are `datagram_bytes`. Needs at most
/// max_vita_header_bytes of it.
[[nodiscard]] vita_fault read_vita_header(std::span<const std::byte> head, std::size_t datagram_bytes,
                                          vita_packet& out) noexcept;
inline constexpr std::size_t max_vita_header_bytes = 28;

/// Reads a packet; what a datagram has behind it is ignored. `out` is filled in as far as it could be read. Of the
/// last packet of its kind and stream it knows nothing.
[[nodiscard]] vita_fault read_vita_packet(std::span<const std::byte> datagram, vita_packet& out) noexcept;

/// How samples lie in the packets' payload.
struct vita_payload_format {
  enum class number_of : std::uint8_t { real = 0, complex = 1, polar = 2, reserved = 3 };
  bool link_efficient = false;
  number_of number = number_of::real;
  std::uint8_t item = 0;         ///< 0 signed fixed point, 14 IEEE single, 15 IEEE double, 16 unsigned fixed point
  std::uint8_t item_bits = 0;    ///< 1 to 64
  std::uint8_t packed_bits = 0;  ///< what an item takes up: 1 to 64
  std::uint8_t tag_bits = 0;     ///< of event and channel tags
  std::uint16_t vector_size = 1;

  bool operator==(const vita_payload_format&) const = default;
  /// Whether each number fills its bytes and nothing lies between them: then a sample is its numbers, big-endian.
  [[nodiscard]] bool is_plain() const noexcept;
};

/// What a context packet says of a stream, as far as it matters here. Absent: not said.
struct vita_context {
  std::uint32_t fields = 0;  ///< the indicator word, CIF0
  std::optional<double> bandwidth{};
  std::optional<double> if_frequency{};
  std::optional<double> rf_frequency{};
  std::optional<double> sample_rate{};
  std::optional<double> reference_level_dbm{};
  std::optional<std::uint32_t> over_ranges{};
  std::optional<std::int64_t> time_adjustment_fs{};
  std::optional<std::uint32_t> calibrated_at{};
  std::optional<std::uint32_t> state{};  ///< the event indicators: 31 to 24 enable 19 to 12, as in a trailer
  std::optional<vita_payload_format> format{};

  [[nodiscard]] bool changed() const noexcept { return (fields >> 31U & 1U) != 0; }
  [[nodiscard]] std::optional<bool> reference_lock() const noexcept;
};

/// The payload of a context packet. nullopt where it is cut short, or its fields have attributes (CIF7).
[[nodiscard]] std::optional<vita_context> read_vita_context(const vita_packet& packet) noexcept;

}  // namespace penstock::live
