#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace penstock::live {

/// What a PMT is: GNU Radio's polymorphic type. The numbers are the first byte of its serialized form, in which
/// integers and doubles are big-endian:
///   symbol          u16 length, the characters
///   int32, int64, uint64, real   one number; complex: two doubles
///   pair, dictionary   first value, second value (a list is a pair of its head and the rest; a dictionary is a list
///                   of pairs)
///   vector, tuple   u32 count, the values
///   uniform_vector  u8 type of the numbers, u32 count, u8 count of padding bytes, these, the numbers
enum class pmt_kind : std::uint8_t {
  truth = 0x00,
  falsehood = 0x01,
  symbol = 0x02,
  int32 = 0x03,
  real = 0x04,
  complex = 0x05,
  null = 0x06,
  pair = 0x07,
  vector = 0x08,
  dictionary = 0x09,
  uniform_vector = 0x0A,
  uint64 = 0x0B,
  tuple = 0x0C,
  int64 = 0x0D,
};

/// Bounds of a PMT that somebody sends.
struct pmt_limits {
  std::size_t depth = 16;     ///< of values in values; the rest of a list counts as its neighbour
  std::size_t values = 1024;  ///< altogether
  std::size_t bytes = 1U << 16U;
};

/// A PMT that has been checked: its bytes are whole. A view; the bytes must outlive it. Each accessor answers nullopt
/// where the value is of another kind.
class pmt_value {
 public:
  [[nodiscard]] pmt_kind kind() const noexcept { return static_cast<pmt_kind>(bytes_.front()); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

  [[nodiscard]] std::optional<bool> boolean() const noexcept;
  [[nodiscard]] std::optional<std::string_view> symbol() const noexcept;
  /// Of int32, int64 and a uint64 that fits.
  [[nodiscard]] std::optional<std::int64_t> integer() const noexcept;
  /// Of uint64, and of int32 and int64 that are not negative.
  [[nodiscard]] std::optional<std::uint64_t> natural() const noexcept;
  /// Of real, and of integers.
  [[nodiscard]] std::optional<double> real() const noexcept;
  [[nodiscard]] std::optional<std::complex<double>> complex() const noexcept;
  /// Values of a vector or tuple; 0 for anything else.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Value `index` of a vector, tuple, or pair or dictionary (0 and 1). Steps over those before it.
  [[nodiscard]] std::optional<pmt_value> item(std::size_t index) const noexcept;

 private:
  friend std::optional<pmt_value> take_pmt(std::span<const std::byte>& rest, const pmt_limits& limits) noexcept;
  explicit pmt_value(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

/// Takes a PMT off the front of `rest`. nullopt, and `rest` as before, where there is none: cut short, of an unknown
/// kind, or beyond the limits. It neither recurses nor allocates.
[[nodiscard]] std::optional<pmt_value> take_pmt(std::span<const std::byte>& rest,
                                                const pmt_limits& limits = {}) noexcept;

/// Appends serialized PMTs to a buffer, which grows where it must.
class pmt_writer {
 public:
  explicit pmt_writer(std::vector<std::byte>& out) noexcept : out_(out) {}

  void null();
  void boolean(bool value);
  /// At most 65535 characters; the rest is cut off.
  void symbol(std::string_view text);
  void natural(std::uint64_t value);
  /// As int32 where it fits, as GNU Radio does.
  void integer(std::int64_t value);
  void real(double value);
  /// `count` values follow.
  void tuple(std::uint32_t count);
  /// Two values follow.
  void pair();

 private:
  void kind(pmt_kind value);
  template <class Integer>
  void big(Integer value);

  std::vector<std::byte>& out_;
};

}  // namespace penstock::live
