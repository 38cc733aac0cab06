#include "daemon/live/wire/gnuradio_tags.hpp"

#include <array>
#include <bit>
#include <cmath>

#include "daemon/live/wire/byte_order.hpp"

namespace penstock::live {
namespace {

constexpr std::uint16_t first_word = 0x5FF0;
constexpr std::uint8_t version = 1;
constexpr std::size_t tags_at = sizeof first_word + sizeof version + sizeof(std::uint64_t);
constexpr std::int64_t ns_per_second = 1'000'000'000;
constexpr std::uint64_t max_seconds = INT64_MAX / ns_per_second - 1;

std::optional<gnuradio_tag> take_tag(std::span<const std::byte>& rest) noexcept {
  byte_reader in(rest);
  const auto offset = in.little<std::uint64_t>();
  if (in.failed()) {
    return std::nullopt;
  }
  std::span<const std::byte> values = in.rest();
  const std::optional<pmt_value> key = take_pmt(values);
  const std::optional<pmt_value> value = key ? take_pmt(values) : std::nullopt;
  const std::optional<pmt_value> source = value ? take_pmt(values) : std::nullopt;
  if (!source) {
    return std::nullopt;
  }
  rest = values;
  return gnuradio_tag{offset, *key, *value, *source};
}

std::optional<std::int64_t> time_of(const pmt_value& value) noexcept {
  const std::optional<pmt_value> whole = value.kind() == pmt_kind::tuple ? value.item(0) : std::nullopt;
  const std::optional<pmt_value> part = value.kind() == pmt_kind::tuple ? value.item(1) : std::nullopt;
  const std::optional<std::uint64_t> seconds = whole ? whole->natural() : std::nullopt;
  const std::optional<double> fraction = part ? part->real() : std::nullopt;
  if (!seconds || !fraction || *seconds > max_seconds || !(*fraction >= 0 && *fraction < 1)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*seconds) * ns_per_second + std::llround(*fraction * 1e9);
}

}  // namespace

std::optional<gnuradio_message> read_gnuradio_message(std::span<const std::byte> message) noexcept {
  byte_reader in(message);
  const auto word = in.little<std::uint16_t>();
  const auto number = in.little<std::uint8_t>();
  gnuradio_message read;
  read.offset = in.little<std::uint64_t>();
  read.tags = in.little<std::uint64_t>();
  if (in.failed() || word != first_word || number != version || read.tags > max_gnuradio_tags) {
    return std::nullopt;
  }
  std::span<const std::byte> rest = in.rest();
  for (std::uint64_t tag = 0; tag < read.tags; ++tag) {
    if (!take_tag(rest)) {
      return std::nullopt;
    }
  }
  read.tag_bytes = in.rest().first(in.rest().size() - rest.size());
  read.samples = rest;
  return read;
}

std::optional<gnuradio_tag> gnuradio_tag_cursor::next() noexcept {
  if (left_ == 0) {
    return std::nullopt;
  }
  --left_;
  return take_tag(rest_);
}

radio_tag decode(const gnuradio_tag& tag) noexcept {
  const std::optional<std::string_view> key = tag.key.symbol();
  radio_tag decoded;
  if (!key) {
    return decoded;
  }
  if (*key == "rx_time") {
    if (const std::optional<std::int64_t> time = time_of(tag.value)) {
      decoded.kind = radio_tag::kind_of::time;
      decoded.time_ns = *time;
    }
  } else if (*key == "rx_rate" || *key == "rx_freq") {
    const bool rate = *key == "rx_rate";
    const std::optional<double> number = tag.value.real();
    if (number && std::isfinite(*number) && (!rate || *number > 0)) {
      decoded.kind = rate ? radio_tag::kind_of::rate : radio_tag::kind_of::frequency;
      decoded.number = *number;
    }
  }
  return decoded;
}

namespace {

template <class Integer>
void append_little(std::vector<std::byte>& out, Integer value) {
  const auto bytes = std::bit_cast<std::array<std::byte, sizeof value>>(value);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

gnuradio_header_writer::gnuradio_header_writer(std::vector<std::byte>& out, std::uint64_t offset) : out_(out) {
  out_.clear();
  append_little(out_, first_word);
  append_little(out_, version);
  append_little(out_, offset);
  append_little(out_, tags_);
}

void gnuradio_header_writer::begin(std::uint64_t offset, std::string_view key) {
  append_little(out_, offset);
  values_.symbol(key);
}

void gnuradio_header_writer::end() {
  values_.symbol("penstock");
  ++tags_;
  std::memcpy(out_.data() + tags_at, &tags_, sizeof tags_);
}

void gnuradio_header_writer::time(std::uint64_t offset, std::int64_t time_ns) {
  if (time_ns < 0) {
    return;  // the seconds are unsigned
  }
  begin(offset, "rx_time");
  values_.tuple(2);
  values_.natural(static_cast<std::uint64_t>(time_ns / ns_per_second));
  values_.real(static_cast<double>(time_ns % ns_per_second) / 1e9);
  end();
}

void gnuradio_header_writer::rate(std::uint64_t offset, double samples_per_second) {
  begin(offset, "rx_rate");
  values_.real(samples_per_second);
  end();
}

void gnuradio_header_writer::frequency(std::uint64_t offset, double hertz) {
  begin(offset, "rx_freq");
  values_.real(hertz);
  end();
}

void gnuradio_header_writer::natural(std::uint64_t offset, std::string_view key, std::uint64_t value) {
  begin(offset, key);
  values_.natural(value);
  end();
}

void gnuradio_header_writer::symbol(std::uint64_t offset, std::string_view key, std::string_view value) {
  begin(offset, key);
  values_.symbol(value);
  end();
}

}  // namespace penstock::live
