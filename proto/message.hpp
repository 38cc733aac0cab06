#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proto/status.hpp"

namespace penstock::wire {

/// A DLPack data type: code 0 = int, 1 = uint, 2 = float, 4 = bfloat, 5 = complex, 6 = bool; bits of one lane; lanes.
struct data_type {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;

  bool operator==(const data_type&) const = default;
  /// Bytes of one element; 0 when bits × lanes is not a whole number of bytes.
  [[nodiscard]] constexpr std::size_t item_bytes() const noexcept {
    const std::size_t total_bits = std::size_t{bits} * lanes;
    return total_bits % 8 == 0 ? total_bits / 8 : 0;
  }
};

inline constexpr data_type uint8_type{1, 8, 1};
inline constexpr data_type uint16_type{1, 16, 1};
inline constexpr data_type int8_type{0, 8, 1};
inline constexpr data_type int16_type{0, 16, 1};
inline constexpr data_type int32_type{0, 32, 1};
inline constexpr data_type int64_type{0, 64, 1};
inline constexpr data_type float16_type{2, 16, 1};
inline constexpr data_type bfloat16_type{4, 16, 1};
inline constexpr data_type float32_type{2, 32, 1};
inline constexpr data_type float64_type{2, 64, 1};
inline constexpr data_type complex64_type{5, 64, 1};
inline constexpr data_type bool_type{6, 8, 1};

inline constexpr std::uint32_t magic = 0x4B534E50;  ///< the bytes "PNSK"
inline constexpr std::uint8_t major_version = 1;
inline constexpr std::size_t header_bytes = 64;
inline constexpr std::size_t tensor_header_bytes = 80;
inline constexpr std::size_t max_dimensions = 8;
inline constexpr std::size_t max_header_len = 4096;   ///< a larger header_len is malformed
inline constexpr std::size_t max_tensors = 64;        ///< of one message
inline constexpr std::size_t max_body_bytes = 65536;  ///< of a control message's JSON
/// Up to so many payload bytes this version sends, and takes, behind the headers of part 0.
inline constexpr std::size_t max_inline_bytes = 4096;

enum class message_type : std::uint8_t {
  hello = 1,           ///< client: JSON body `hello`
  welcome = 2,         ///< daemon: JSON body `welcome`
  goodbye = 3,         ///< client: leaves; no answer, no body. Daemon: stops; the client answers with its own
  ping = 4,            ///< client: answered with PONG; no body
  pong = 5,            ///< daemon
  get_status = 6,      ///< client: answered with STATUS; no body
  status_report = 7,   ///< daemon: JSON body, the counters
  open_session = 8,    ///< client: JSON body `open_session`
  session_opened = 9,  ///< daemon: JSON body `session_opened`
  close_session = 10,  ///< client: `session` names it; no answer, no body
  get_trace = 12,      ///< client: `sequence` is a cursor; answered with TRACE; no body
  trace_report = 13,   ///< daemon: JSON body, recent batches; `sequence` is the next cursor
  attach = 14,         ///< client: JSON body `attach`; answered with ATTACHED
  attached = 15,       ///< daemon: JSON body `attached`
  submit = 16,         ///< client: tensor headers, then one part a tensor, or the payloads behind them
  cancel = 17,         ///< client: request_id names the request; no body
  submit_shared = 18,  ///< client: tensor headers, then a `shared_place`
  subscribe = 20,      ///< client: JSON body `subscribe`; answered with SUBSCRIBED
  subscribed = 21,     ///< daemon: JSON body `subscribed`
  unsubscribe = 22,    ///< client: request_id names the subscription; no answer, no body
  set_values = 24,     ///< client: JSON body `set_values`; answered with VALUES
  values = 25,         ///< daemon: JSON body `values_report`; `sequence` is the session's frame from which they hold
  get_values = 26,     ///< client: `session` names it, 0: `pipeline`; answered with VALUES; no body
  result = 32,         ///< daemon: as SUBMIT
  error = 33,          ///< daemon: JSON body `error_body`
  result_shared = 34,  ///< daemon: tensor headers; the tensors lie in the arena
  released = 35,       ///< daemon: the memory of that request_id is not used any more; no body
  published = 36,      ///< daemon: as RESULT, to a subscriber; `sequence` counts the results that match
  publisher = 37,      ///< daemon: JSON body `publisher`
};

/// The fixed header of every message. Part 0 is these 64 bytes (or header_len of them: a sample_account, and what this
/// version does not know), then `tensors` tensor headers. Control messages have their JSON as part 1, data messages one
/// part a tensor or, where the other side takes it so, all payloads behind the tensor headers and no other part.
struct message_header {
  std::uint8_t major = major_version;
  message_type type = message_type::hello;
  std::uint16_t header_len = header_bytes;  ///< bytes before the tensor headers
  std::uint64_t request_id = 0;
  std::uint64_t timeout_ns = 0;  ///< relative to ingress; 0 = none
  std::uint32_t pipeline = 0;
  std::uint32_t session = 0;   ///< 0 = none
  std::uint64_t sequence = 0;  ///< frames that the session had before this request's first
  std::uint16_t tensors = 0;
  status code = status::ok;
  std::uint32_t frames = 0;
  std::array<std::byte, 16> trace_id{};

  bool operator==(const message_header&) const = default;
};

/// One tensor of a SUBMIT or a RESULT. shape[0] is the number of frames.
struct tensor_header {
  data_type type;
  std::uint8_t dimensions = 0;
  std::uint64_t bytes = 0;
  std::array<std::int64_t, max_dimensions> shape{};

  bool operator==(const tensor_header&) const = default;
  [[nodiscard]] std::span<const std::int64_t> extents() const noexcept { return {shape.data(), dimensions}; }
};

/// Where the time of a sample comes from.
enum class time_quality : std::uint8_t {
  none,         ///< there is none
  arrival,      ///< of its arrival
  estimated,    ///< counted from an earlier one by the sample rate
  source,       ///< the source said it
  disciplined,  ///< the source said it, from a clock that follows a reference
};

/// Bits of sample_account::flags.
namespace sample_flag {
inline constexpr std::uint8_t index_known = 1;
inline constexpr std::uint8_t filled = 2;
inline constexpr std::uint8_t loss_suspected = 4;
inline constexpr std::uint8_t restored = 8;  ///< the order of packets was restored
inline constexpr std::uint8_t epoch_begins = 16;
inline constexpr std::uint8_t withheld = 32;  ///< the result is for its sender alone, and not published
}  // namespace sample_flag

/// Which samples of its sender's clock a request has: bytes 64 … 103 of a header of at least account_header_bytes. A
/// result repeats it, and says behind it for each tensor where its first index stands in the same clock.
struct sample_account {
  std::int64_t index = 0;         ///< of the request's first sample; 0 without sample_flag::index_known
  std::int64_t time_ns = 0;       ///< of that sample, since 1970, UTC
  std::uint64_t lost_before = 0;  ///< samples known to be lost directly before it
  std::uint32_t epoch = 0;        ///< of the clock: indices of different epochs do not compare
  std::uint32_t filled = 0;       ///< samples that are filled in; of a result also earlier ones that it reaches back to
  time_quality quality = time_quality::none;
  std::uint8_t flags = 0;  ///< of sample_flag

  bool operator==(const sample_account&) const = default;
};
inline constexpr std::size_t sample_account_bytes = 40;
/// header_len of a request with an account.
inline constexpr std::size_t account_header_bytes = header_bytes + sample_account_bytes;
/// header_len of the result of a request with an account.
[[nodiscard]] constexpr std::size_t account_header_bytes_of(std::size_t tensors) noexcept {
  return account_header_bytes + tensors * sizeof(std::int64_t);
}

/// Where a request's frames lie in the memory that its client shares with the daemon, and where its outputs go: part 1
/// of SUBMIT_SHARED. Offsets are multiples of place_alignment.
struct shared_place {
  std::uint32_t arena = 0;
  bool repeat = false;  ///< sent again
  std::uint64_t input = 0;
  std::uint64_t output = 0;  ///< of the first; each further one at the next multiple of place_alignment
  std::uint64_t output_bytes = 0;

  bool operator==(const shared_place&) const = default;
};
inline constexpr std::size_t shared_place_bytes = 32;
inline constexpr std::size_t place_alignment = 64;
/// Room that a tensor takes up in an arena, with the gap behind it.
[[nodiscard]] constexpr std::uint64_t room_for(std::uint64_t bytes) noexcept {
  return (bytes + (place_alignment - 1)) / place_alignment * place_alignment;
}

enum class decode_error : std::uint8_t {
  none,
  truncated,  ///< fewer bytes than a header
  bad_magic,
  unsupported_version,  ///< the header's other fields are not filled in, but for request_id
  bad_header_len,       ///< under 64, over max_header_len, or over the part
  too_many_tensors,
  truncated_tensors,  ///< the part ends before the last tensor header
  bad_tensor,         ///< dimensions over 8 or an extent below 0, an unknown dtype, or shape × item size ≠ bytes
};
/// One sentence for a person: "the header is shorter than 64 bytes".
[[nodiscard]] std::string_view text_of(decode_error error) noexcept;

/// Writes header_bytes bytes. `out` must have them.
void encode(const message_header& header, std::span<std::byte> out) noexcept;
/// Writes tensor_header_bytes bytes. `out` must have them.
void encode(const tensor_header& header, std::span<std::byte> out) noexcept;

/// Writes sample_account_bytes bytes, which follow the header. `out` must have them.
void encode(const sample_account& account, std::span<std::byte> out) noexcept;
/// Writes the eight bytes that say where a result's tensor stands. `out` must have them.
void encode_output_index(std::int64_t index, std::span<std::byte> out) noexcept;

/// Writes shared_place_bytes bytes. `out` must have them.
void encode(const shared_place& place, std::span<std::byte> out) noexcept;

/// Reads part 0 of a message, which may lie at any address. `out` is filled in as far as it could be read.
[[nodiscard]] decode_error decode(std::span<const std::byte> part, message_header& out) noexcept;
/// Reads tensor header `index` of part 0, whose message header has been decoded into `header`. Checks that
/// shape × item size equals bytes, without overflow.
[[nodiscard]] decode_error decode_tensor(std::span<const std::byte> part, const message_header& header,
                                         std::size_t index, tensor_header& out) noexcept;

/// Reads the account of part 0, whose message header has been decoded into `header`; false when it has none. A quality
/// that this version does not know is read as `none`, flags that it does not know as not set.
[[nodiscard]] bool decode_account(std::span<const std::byte> part, const message_header& header,
                                  sample_account& out) noexcept;
/// Reads where tensor `index` of a result stands in its sender's clock; false when the header does not say it.
[[nodiscard]] bool decode_output_index(std::span<const std::byte> part, const message_header& header, std::size_t index,
                                       std::int64_t& out) noexcept;

/// What lies behind the tensor headers of part 0, whose message header has been decoded into `header`: the payloads,
/// one straight behind the other, of a data message that has no other part.
[[nodiscard]] std::span<const std::byte> inline_payloads(std::span<const std::byte> part,
                                                         const message_header& header) noexcept;

/// Reads part 1 of SUBMIT_SHARED; false when it is not of that size.
[[nodiscard]] bool decode(std::span<const std::byte> part, shared_place& out) noexcept;

/// Bytes of part 0 for a message of that many tensors, as this version writes it.
[[nodiscard]] constexpr std::size_t part_bytes(std::size_t tensors) noexcept {
  return header_bytes + tensors * tensor_header_bytes;
}

}  // namespace penstock::wire
