// What the daemon and its clients make of a message: one input is the number of parts (a byte), the size of part 0 (two
// bytes, little-endian), part 0, and the body. Whatever is taken must be what it says.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "daemon/net/admission.hpp"
#include "proto/chrome_trace.hpp"
#include "proto/control.hpp"
#include "tests/support/hand_made_plan.hpp"

namespace penstock {
namespace {

constexpr std::size_t prefix_bytes = 3;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

/// What was read can be written, and read again.
template <class Body>
void check(const std::optional<Body>& read, std::optional<Body> (*decode)(std::span<const std::byte>)) {
  if (read) {
    const std::string again = wire::encode(*read);
    require(again.size() > wire::max_request_body_bytes || decode(std::as_bytes(std::span(again))).has_value());
  }
}

void read_bodies(std::span<const std::byte> body) {
  check(wire::decode_hello(body), wire::decode_hello);
  check(wire::decode_open_session(body), wire::decode_open_session);
  check(wire::decode_attach(body), wire::decode_attach);
  check(wire::decode_welcome(body), wire::decode_welcome);
  check(wire::decode_session_opened(body), wire::decode_session_opened);
  check(wire::decode_attached(body), wire::decode_attached);
  check(wire::decode_subscribe(body), wire::decode_subscribe);
  check(wire::decode_subscribed(body), wire::decode_subscribed);
  check(wire::decode_publisher(body), wire::decode_publisher);
  check(wire::decode_set_values(body), wire::decode_set_values);
  check(wire::decode_values(body), wire::decode_values);
  check(wire::decode_error_body(body), wire::decode_error_body);
  wire::shared_place place;
  require(!wire::decode(body, place) || body.size() == wire::shared_place_bytes);
  if (wire::is_answer(body)) {
    try {
      chrome_trace drawn;
      drawn.add({reinterpret_cast<const char*>(body.data()), body.size()});
      std::ostringstream out;
      drawn.write(out);
    } catch (const std::runtime_error&) {
      // It is no page of a timeline.
    }
  }
}

/// What was read of an account can be written, and read again; a result has either no index or those of its first
/// tensors.
void read_account(std::span<const std::byte> head, const wire::message_header& header) {
  wire::sample_account account;
  if (wire::decode_account(head, header, account)) {
    std::array<std::byte, wire::account_header_bytes> again{};
    wire::encode(account, std::span(again).subspan(wire::header_bytes));
    wire::message_header shortest;
    shortest.header_len = wire::account_header_bytes;
    wire::sample_account same;
    require(wire::decode_account(again, shortest, same) && same == account);
  }
  std::int64_t index = 0;
  for (std::size_t tensor = header.tensors + std::size_t{1}; tensor > 0; --tensor) {
    const bool fits = header.header_len >= wire::account_header_bytes_of(tensor) && tensor <= header.tensors;
    require(wire::decode_output_index(head, header, tensor - 1, index) == fits);
  }
}

void judge(std::span<const std::byte> head, std::span<const std::byte> body, std::size_t parts, const plan& pipeline) {
  incoming message;
  message.head = head;
  message.body = parts > 1 ? body : std::span<const std::byte>{};
  message.parts = parts;
  message.bytes = message.body.size();
  wire::message_header header;
  if (!read_header(message, {}, header).admitted()) {
    return;
  }
  read_account(head, header);
  request_tracker::submission what;
  if (check_submit(message, header, pipeline, what).admitted()) {
    require(header.frames >= 1 && header.frames <= pipeline.max_frames);
    require(what.account.has_value() == (header.header_len >= wire::account_header_bytes));
    require(header.type != wire::message_type::submit || what.bytes == message.body.size());
    (void)check_session(header, nullptr, pipeline, what.leading);
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const std::vector<plan> plans =
      testing::hand_made_plans({{}, {.shape = {4, 2}, .variable = true, .keeps_state = true}});
  if (size < prefix_bytes) {
    return 0;
  }
  const std::span<const std::byte> rest = std::as_bytes(std::span(data, size)).subspan(prefix_bytes);
  const std::size_t head_bytes = std::min<std::size_t>(rest.size(), data[1] | std::size_t{data[2]} << 8U);
  // Memory of their own, so that a sanitizer sees a read beyond either part.
  const std::vector<std::byte> head(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(head_bytes));
  const std::vector<std::byte> body(rest.begin() + static_cast<std::ptrdiff_t>(head_bytes), rest.end());
  for (const plan& each : plans) {
    judge(head, body, data[0] % 4U, each);
  }
  read_bodies(body);
  return 0;
}
