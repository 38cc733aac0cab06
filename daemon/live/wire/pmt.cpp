#include "daemon/live/wire/pmt.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "daemon/live/wire/byte_order.hpp"

namespace penstock::live {
namespace {

constexpr std::size_t max_depth = 64;  // whatever the limits say
constexpr std::array<std::size_t, 12> uniform_item_bytes{1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16};

/// Takes the head of a value: all of it, but for the values in it. How many these are; nullopt where it can't be.
std::optional<std::size_t> take_head(byte_reader& in) noexcept {
  const auto kind = static_cast<pmt_kind>(in.little<std::uint8_t>());
  std::size_t values = 0;
  switch (kind) {
    case pmt_kind::truth:
    case pmt_kind::falsehood:
    case pmt_kind::null:
      break;
    case pmt_kind::symbol:
      (void)in.take(in.big<std::uint16_t>());
      break;
    case pmt_kind::int32:
      (void)in.take(sizeof(std::int32_t));
      break;
    case pmt_kind::int64:
    case pmt_kind::uint64:
    case pmt_kind::real:
      (void)in.take(sizeof(double));
      break;
    case pmt_kind::complex:
      (void)in.take(2 * sizeof(double));
      break;
    case pmt_kind::pair:
    case pmt_kind::dictionary:
      values = 2;
      break;
    case pmt_kind::vector:
    case pmt_kind::tuple:
      values = in.big<std::uint32_t>();
      break;
    case pmt_kind::uniform_vector: {
      const std::size_t type = in.little<std::uint8_t>();
      const std::uint64_t count = in.big<std::uint32_t>();
      (void)in.take(in.little<std::uint8_t>());
      if (type >= uniform_item_bytes.size()) {
        return std::nullopt;
      }
      (void)in.take(count * uniform_item_bytes[type]);
      break;
    }
    default:
      return std::nullopt;
  }
  return in.failed() ? std::nullopt : std::optional(values);
}

}  // namespace

std::optional<pmt_value> take_pmt(std::span<const std::byte>& rest, const pmt_limits& limits) noexcept {
  const std::span<const std::byte> all = rest.first(std::min(rest.size(), limits.bytes));
  byte_reader in(all);
  // How many values are still to come at each depth.
  std::array<std::size_t, max_depth> left{1};
  const std::size_t deepest = std::min(limits.depth, max_depth);
  std::size_t depth = 1;
  std::size_t budget = limits.values;
  while (depth > 0) {
    const std::optional<std::size_t> values = take_head(in);
    if (!values || *values > budget || budget == 0 || deepest == 0) {
      return std::nullopt;
    }
    --budget;
    --left[depth - 1];
    // The last value of a row gives its place to what is in it: a list does not get deeper with each of its items.
    while (depth > 0 && left[depth - 1] == 0) {
      --depth;
    }
    if (*values > 0) {
      if (depth == deepest) {
        return std::nullopt;
      }
      left[depth++] = *values;
    }
  }
  const std::size_t length = all.size() - in.rest().size();
  const pmt_value value(all.first(length));
  rest = rest.subspan(length);
  return value;
}

std::optional<bool> pmt_value::boolean() const noexcept {
  switch (kind()) {
    case pmt_kind::truth:
      return true;
    case pmt_kind::falsehood:
      return false;
    default:
      return std::nullopt;
  }
}

std::optional<std::string_view> pmt_value::symbol() const noexcept {
  if (kind() != pmt_kind::symbol) {
    return std::nullopt;
  }
  const std::span<const std::byte> text = bytes_.subspan(1 + sizeof(std::uint16_t));
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

std::optional<std::int64_t> pmt_value::integer() const noexcept {
  byte_reader in(bytes_.subspan(1));
  switch (kind()) {
    case pmt_kind::int32:
      return static_cast<std::int32_t>(in.big<std::uint32_t>());
    case pmt_kind::int64:
      return static_cast<std::int64_t>(in.big<std::uint64_t>());
    case pmt_kind::uint64: {
      const auto value = in.big<std::uint64_t>();
      return value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}
                 ? std::optional(static_cast<std::int64_t>(value))
                 : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<std::uint64_t> pmt_value::natural() const noexcept {
  if (kind() == pmt_kind::uint64) {
    return byte_reader(bytes_.subspan(1)).big<std::uint64_t>();
  }
  const std::optional<std::int64_t> value = integer();
  return value && *value >= 0 ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

std::optional<double> pmt_value::real() const noexcept {
  if (kind() == pmt_kind::real) {
    return std::bit_cast<double>(byte_reader(bytes_.subspan(1)).big<std::uint64_t>());
  }
  if (kind() == pmt_kind::uint64) {
    return static_cast<double>(*natural());
  }
  const std::optional<std::int64_t> value = integer();
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::optional<std::complex<double>> pmt_value::complex() const noexcept {
  if (kind() != pmt_kind::complex) {
    return std::nullopt;
  }
  byte_reader in(bytes_.subspan(1));
  const auto first = std::bit_cast<double>(in.big<std::uint64_t>());
  return std::complex(first, std::bit_cast<double>(in.big<std::uint64_t>()));
}

std::size_t pmt_value::size() const noexcept {
  const bool counted = kind() == pmt_kind::vector || kind() == pmt_kind::tuple;
  return counted ? byte_reader(bytes_.subspan(1)).big<std::uint32_t>() : 0;
}

std::optional<pmt_value> pmt_value::item(std::size_t index) const noexcept {
  const bool pair = kind() == pmt_kind::pair || kind() == pmt_kind::dictionary;
  const std::size_t count = pair ? 2 : size();
  if (index >= count) {
    return std::nullopt;
  }
  std::span<const std::byte> rest = bytes_.subspan(pair ? 1 : 1 + sizeof(std::uint32_t));
  // What is inside of a value that was checked is within the same limits, however they were set.
  const pmt_limits any{max_depth, std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max()};
  for (; index > 0; --index) {
    if (!take_pmt(rest, any)) {
      return std::nullopt;
    }
  }
  return take_pmt(rest, any);
}

void pmt_writer::kind(pmt_kind value) {
  out_.push_back(static_cast<std::byte>(value));
}

template <class Integer>
void pmt_writer::big(Integer value) {
  const auto bytes = std::bit_cast<std::array<std::byte, sizeof value>>(swapped(value));
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void pmt_writer::null() {
  kind(pmt_kind::null);
}

void pmt_writer::boolean(bool value) {
  kind(value ? pmt_kind::truth : pmt_kind::falsehood);
}

void pmt_writer::symbol(std::string_view text) {
  text = text.substr(0, std::numeric_limits<std::uint16_t>::max());
  kind(pmt_kind::symbol);
  big(static_cast<std::uint16_t>(text.size()));
  const auto bytes = std::as_bytes(std::span(text));
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void pmt_writer::natural(std::uint64_t value) {
  kind(pmt_kind::uint64);
  big(value);
}

void pmt_writer::integer(std::int64_t value) {
  if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    kind(pmt_kind::int32);
    big(static_cast<std::uint32_t>(value));
  } else {
    kind(pmt_kind::int64);
    big(static_cast<std::uint64_t>(value));
  }
}

void pmt_writer::real(double value) {
  kind(pmt_kind::real);
  big(std::bit_cast<std::uint64_t>(value));
}

void pmt_writer::tuple(std::uint32_t count) {
  kind(pmt_kind::tuple);
  big(count);
}

void pmt_writer::pair() {
  kind(pmt_kind::pair);
}

}  // namespace penstock::live
