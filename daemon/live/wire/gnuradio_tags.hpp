#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/live/wire/pmt.hpp"

namespace penstock::live {

/// The message of GNU Radio's ZeroMQ blocks with "pass tags": a header, then samples. The header's integers are in the
/// order of the sender's machine; only little-endian is read.
///   u16 0x5FF0, u8 version 1, u64 offset, u64 count of tags,
///   for each tag: u64 offset, PMT key, PMT value, PMT source
/// Offsets count samples since the sender's flowgraph began.
struct gnuradio_message {
  std::uint64_t offset = 0;  ///< of the first sample
  std::uint64_t tags = 0;
  std::span<const std::byte> tag_bytes;
  std::span<const std::byte> samples;
};

inline constexpr std::uint64_t max_gnuradio_tags = 1024;  ///< of one message

/// nullopt where the bytes are no such message: another first word or version, cut short, too many tags, or a tag of
/// which a PMT can't be read. Every tag has been checked.
[[nodiscard]] std::optional<gnuradio_message> read_gnuradio_message(std::span<const std::byte> message) noexcept;

struct gnuradio_tag {
  std::uint64_t offset = 0;
  pmt_value key;
  pmt_value value;
  pmt_value source;
};

/// Goes through the tags of a message that was read.
class gnuradio_tag_cursor {
 public:
  explicit gnuradio_tag_cursor(const gnuradio_message& message) noexcept
      : rest_(message.tag_bytes), left_(message.tags) {}
  /// The next one; nullopt behind the last.
  [[nodiscard]] std::optional<gnuradio_tag> next() noexcept;

 private:
  std::span<const std::byte> rest_;
  std::uint64_t left_;
};

/// What the tags of a radio say of a sample: its time, and the rate and frequency from it on.
struct radio_tag {
  enum class kind_of : std::uint8_t { other, time, rate, frequency };
  kind_of kind = kind_of::other;
  std::int64_t time_ns = 0;  ///< time: since 1970
  double number = 0;         ///< rate: samples per second, above 0; frequency: Hz
};
/// rx_time (a tuple of whole seconds and a fraction), rx_rate and rx_freq; anything else is `other`, and so are values
/// that can't be.
[[nodiscard]] radio_tag decode(const gnuradio_tag& tag) noexcept;

/// Writes such a header.
class gnuradio_header_writer {
 public:
  /// Begins a header in `out`, which is emptied; its memory is kept.
  gnuradio_header_writer(std::vector<std::byte>& out, std::uint64_t offset);
  void time(std::uint64_t offset, std::int64_t time_ns);
  void rate(std::uint64_t offset, double samples_per_second);
  void frequency(std::uint64_t offset, double hertz);
  /// Any other tag; the source is "penstock", as it is of those above.
  void natural(std::uint64_t offset, std::string_view key, std::uint64_t value);
  void symbol(std::uint64_t offset, std::string_view key, std::string_view value);

 private:
  void begin(std::uint64_t offset, std::string_view key);
  void end();

  std::vector<std::byte>& out_;
  pmt_writer values_{out_};
  std::uint64_t tags_ = 0;
};

}  // namespace penstock::live
