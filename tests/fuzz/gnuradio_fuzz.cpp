// What a flowgraph's message is read as: one input is a message of GNU Radio's ZeroMQ blocks, and a PMT. Whatever is
// taken must lie within the input, and be read as the same again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "daemon/live/wire/gnuradio_tags.hpp"
#include "daemon/live/wire/pmt.hpp"

namespace penstock::live {
namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// As a sink of tags would, value by value.
void look_into(const pmt_value& value, std::size_t depth) {
  require(depth < 64);
  std::span<const std::byte> rest = value.bytes();
  const std::optional<pmt_value> again = take_pmt(rest);
  require(again.has_value() && rest.empty() && again->kind() == value.kind());
  (void)value.boolean();
  (void)value.complex();
  (void)value.real();
  if (const auto text = value.symbol()) {
    require(text->size() + 3 == value.bytes().size());
  }
  if (const auto natural = value.natural()) {
    require(!value.integer() || static_cast<std::uint64_t>(*value.integer()) == *natural);
  }
  const bool is_pair = value.kind() == pmt_kind::pair || value.kind() == pmt_kind::dictionary;
  require(!value.item(is_pair ? 2 : value.size()));
  // The last item of a row may be as deep as the row is long: it is left out.
  for (std::size_t item = 0; item < std::min<std::size_t>(is_pair ? 1 : value.size(), 4); ++item) {
    const std::optional<pmt_value> inner = value.item(item);
    require(inner.has_value() && inner->bytes().size() < value.bytes().size());
    if (item + 1 < value.size() || is_pair) {
      look_into(*inner, depth + 1);
    }
  }
}

}  // namespace
}  // namespace penstock::live

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::live;
  // Memory of its own, so that a sanitizer sees a read beyond it.
  const auto given = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> bytes(given.begin(), given.end());
  std::span<const std::byte> rest = bytes;
  if (const std::optional<pmt_value> value = take_pmt(rest)) {
    require(value->bytes().size() + rest.size() == bytes.size());
    look_into(*value, 0);
  }
  if (const std::optional<gnuradio_message> message = read_gnuradio_message(bytes)) {
    require(message->tag_bytes.size() + message->samples.size() + 19 == bytes.size());
    gnuradio_tag_cursor cursor(*message);
    for (std::uint64_t tag = 0; tag < message->tags; ++tag) {
      const std::optional<gnuradio_tag> next = cursor.next();
      require(next.has_value());
      look_into(next->key, 0);
      look_into(next->value, 0);
      const radio_tag said = decode(*next);
      require(said.kind != radio_tag::kind_of::time || said.time_ns >= 0);
      require(said.kind != radio_tag::kind_of::rate || said.number > 0);
    }
    require(!cursor.next());
  }
  return 0;
}
