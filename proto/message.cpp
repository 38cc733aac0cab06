#include "proto/message.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>

namespace penstock::wire {

namespace {

/// Where each field lies in the message header.
namespace at {
constexpr std::size_t magic = 0;
constexpr std::size_t major = 4;
constexpr std::size_t type = 5;
constexpr std::size_t header_len = 6;
constexpr std::size_t request_id = 8;
constexpr std::size_t timeout_ns = 16;
constexpr std::size_t pipeline = 24;
constexpr std::size_t session = 28;
constexpr std::size_t sequence = 32;
constexpr std::size_t tensors = 40;
constexpr std::size_t code = 42;
constexpr std::size_t frames = 44;
constexpr std::size_t trace_id = 48;
}  // namespace at

/// Where each field lies in a tensor header.
namespace tensor_at {
constexpr std::size_t code = 0;
constexpr std::size_t bits = 1;
constexpr std::size_t lanes = 2;
constexpr std::size_t dimensions = 4;
constexpr std::size_t reserved = 5;
constexpr std::size_t bytes = 8;
constexpr std::size_t shape = 16;
}  // namespace tensor_at

/// Where each field lies in a place.
namespace place_at {
constexpr std::size_t arena = 0;
constexpr std::size_t flags = 4;
constexpr std::size_t input = 8;
constexpr std::size_t output = 16;
constexpr std::size_t output_bytes = 24;
constexpr std::uint32_t repeat_flag = 1;
}  // namespace place_at

/// Where each field lies in a sample account.
namespace account_at {
constexpr std::size_t index = 0;
constexpr std::size_t time_ns = 8;
constexpr std::size_t lost_before = 16;
constexpr std::size_t epoch = 24;
constexpr std::size_t filled = 28;
constexpr std::size_t quality = 32;
constexpr std::size_t flags = 33;
constexpr std::size_t reserved = 34;
constexpr std::uint8_t known_flags = sample_flag::index_known | sample_flag::filled | sample_flag::loss_suspected |
                                     sample_flag::restored | sample_flag::epoch_begins | sample_flag::withheld;
}  // namespace account_at

/// The value in little-endian order, whatever this machine's order is. Its own inverse.
template <std::integral Integer>
constexpr Integer little_endian(Integer value) noexcept {
  if constexpr (std::endian::native == std::endian::little || sizeof(Integer) == 1) {
    return value;
  } else {
    auto bytes = std::bit_cast<std::array<std::byte, sizeof(Integer)>>(value);
    std::reverse(bytes.begin(), bytes.end());
    return std::bit_cast<Integer>(bytes);
  }
}

template <std::integral Integer>
Integer load(const std::byte* from) noexcept {
  Integer value;
  std::memcpy(&value, from, sizeof value);
  return little_endian(value);
}

template <std::integral Integer>
void store(std::byte* to, Integer value) noexcept {
  value = little_endian(value);
  std::memcpy(to, &value, sizeof value);
}

bool is_known(const data_type& type) noexcept {
  if (type.lanes != 1) {
    return false;
  }
  switch (type.code) {
    case 0:  // int
    case 1:  // uint
      return type.bits == 8 || type.bits == 16 || type.bits == 32 || type.bits == 64;
    case 2:  // float
      return type.bits == 16 || type.bits == 32 || type.bits == 64;
    case 4:  // bfloat
      return type.bits == 16;
    case 5:  // complex
      return type.bits == 64 || type.bits == 128;
    case 6:  // bool
      return type.bits == 8;
    default:
      return false;
  }
}

/// Whether shape × item size is exactly `bytes`. The product of the extents that are not 0 must not overflow either,
/// so that the order of the extents does not decide.
bool size_fits(const tensor_header& header) noexcept {
  std::uint64_t product = header.type.item_bytes();
  bool empty = false;
  for (const std::int64_t extent : header.extents()) {
    if (extent < 0) {
      return false;
    }
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(extent), &product)) {
      return false;
    }
  }
  return header.bytes == (empty ? 0 : product);
}

}  // namespace

std::string_view text_of(decode_error error) noexcept {
  switch (error) {
    case decode_error::none:
      return "no error";
    case decode_error::truncated:
      return "the header is shorter than 64 bytes";
    case decode_error::bad_magic:
      return "the message does not begin with \"PNSK\"";
    case decode_error::unsupported_version:
      return "the message's major version is not supported, only 1 is";
    case decode_error::bad_header_len:
      return "header_len is under 64, over 4096 or over what was sent";
    case decode_error::too_many_tensors:
      return "the message announces more than 64 tensors";
    case decode_error::truncated_tensors:
      return "the message ends before its last tensor header";
    case decode_error::bad_tensor:
      return "a tensor header has an unknown data type, a bad shape, or a shape that does not match its size";
  }
  return "unknown error";
}

void encode(const message_header& header, std::span<std::byte> out) noexcept {
  std::byte* const to = out.data();
  store(to + at::magic, magic);
  store(to + at::major, header.major);
  store(to + at::type, static_cast<std::uint8_t>(header.type));
  store(to + at::header_len, header.header_len);
  store(to + at::request_id, header.request_id);
  store(to + at::timeout_ns, header.timeout_ns);
  store(to + at::pipeline, header.pipeline);
  store(to + at::session, header.session);
  store(to + at::sequence, header.sequence);
  store(to + at::tensors, header.tensors);
  store(to + at::code, static_cast<std::uint16_t>(header.code));
  store(to + at::frames, header.frames);
  std::memcpy(to + at::trace_id, header.trace_id.data(), header.trace_id.size());
}

void encode(const tensor_header& header, std::span<std::byte> out) noexcept {
  std::byte* const to = out.data();
  store(to + tensor_at::code, header.type.code);
  store(to + tensor_at::bits, header.type.bits);
  store(to + tensor_at::lanes, header.type.lanes);
  store(to + tensor_at::dimensions, header.dimensions);
  std::memset(to + tensor_at::reserved, 0, tensor_at::bytes - tensor_at::reserved);
  store(to + tensor_at::bytes, header.bytes);
  for (std::size_t i = 0; i < max_dimensions; ++i) {
    store(to + tensor_at::shape + i * sizeof(std::int64_t), header.shape[i]);
  }
}

decode_error decode(std::span<const std::byte> part, message_header& out) noexcept {
  if (part.size() < header_bytes) {
    return decode_error::truncated;
  }
  const std::byte* const from = part.data();
  if (load<std::uint32_t>(from + at::magic) != magic) {
    return decode_error::bad_magic;
  }
  out.major = load<std::uint8_t>(from + at::major);
  out.request_id = load<std::uint64_t>(from + at::request_id);
  if (out.major != major_version) {
    return decode_error::unsupported_version;
  }
  out.type = static_cast<message_type>(load<std::uint8_t>(from + at::type));
  out.header_len = load<std::uint16_t>(from + at::header_len);
  out.timeout_ns = load<std::uint64_t>(from + at::timeout_ns);
  out.pipeline = load<std::uint32_t>(from + at::pipeline);
  out.session = load<std::uint32_t>(from + at::session);
  out.sequence = load<std::uint64_t>(from + at::sequence);
  out.tensors = load<std::uint16_t>(from + at::tensors);
  out.code = static_cast<status>(load<std::uint16_t>(from + at::code));
  out.frames = load<std::uint32_t>(from + at::frames);
  std::memcpy(out.trace_id.data(), from + at::trace_id, out.trace_id.size());
  if (out.header_len < header_bytes || out.header_len > max_header_len || out.header_len > part.size()) {
    return decode_error::bad_header_len;
  }
  if (out.tensors > max_tensors) {
    return decode_error::too_many_tensors;
  }
  if (part.size() - out.header_len < out.tensors * tensor_header_bytes) {
    return decode_error::truncated_tensors;
  }
  return decode_error::none;
}

decode_error decode_tensor(std::span<const std::byte> part, const message_header& header, std::size_t index,
                           tensor_header& out) noexcept {
  if (index >= header.tensors) {
    return decode_error::truncated_tensors;
  }
  const std::size_t offset = header.header_len + index * tensor_header_bytes;
  if (part.size() < offset + tensor_header_bytes) {
    return decode_error::truncated_tensors;
  }
  const std::byte* const from = part.data() + offset;
  out.type.code = load<std::uint8_t>(from + tensor_at::code);
  out.type.bits = load<std::uint8_t>(from + tensor_at::bits);
  out.type.lanes = load<std::uint16_t>(from + tensor_at::lanes);
  out.dimensions = load<std::uint8_t>(from + tensor_at::dimensions);
  out.bytes = load<std::uint64_t>(from + tensor_at::bytes);
  out.shape.fill(0);
  if (out.dimensions > max_dimensions) {
    out.dimensions = 0;  // extents() stays inside the array whatever the caller does with a bad tensor
    return decode_error::bad_tensor;
  }
  for (std::size_t i = 0; i < out.dimensions; ++i) {
    out.shape[i] = load<std::int64_t>(from + tensor_at::shape + i * sizeof(std::int64_t));
  }
  return is_known(out.type) && size_fits(out) ? decode_error::none : decode_error::bad_tensor;
}

void encode(const sample_account& account, std::span<std::byte> out) noexcept {
  std::byte* const to = out.data();
  store(to + account_at::index, account.index);
  store(to + account_at::time_ns, account.time_ns);
  store(to + account_at::lost_before, account.lost_before);
  store(to + account_at::epoch, account.epoch);
  store(to + account_at::filled, account.filled);
  store(to + account_at::quality, static_cast<std::uint8_t>(account.quality));
  store(to + account_at::flags, account.flags);
  std::memset(to + account_at::reserved, 0, sample_account_bytes - account_at::reserved);
}

void encode_output_index(std::int64_t index, std::span<std::byte> out) noexcept {
  store(out.data(), index);
}

bool decode_account(std::span<const std::byte> part, const message_header& header, sample_account& out) noexcept {
  if (header.header_len < account_header_bytes || part.size() < header.header_len) {
    return false;
  }
  const std::byte* const from = part.data() + header_bytes;
  out.index = load<std::int64_t>(from + account_at::index);
  out.time_ns = load<std::int64_t>(from + account_at::time_ns);
  out.lost_before = load<std::uint64_t>(from + account_at::lost_before);
  out.epoch = load<std::uint32_t>(from + account_at::epoch);
  out.filled = load<std::uint32_t>(from + account_at::filled);
  const auto quality = load<std::uint8_t>(from + account_at::quality);
  out.quality = quality <= static_cast<std::uint8_t>(time_quality::disciplined) ? static_cast<time_quality>(quality)
                                                                                : time_quality::none;
  out.flags = static_cast<std::uint8_t>(load<std::uint8_t>(from + account_at::flags) & account_at::known_flags);
  return true;
}

bool decode_output_index(std::span<const std::byte> part, const message_header& header, std::size_t index,
                         std::int64_t& out) noexcept {
  if (index >= header.tensors || header.header_len < account_header_bytes_of(index + 1) ||
      part.size() < header.header_len) {
    return false;
  }
  out = load<std::int64_t>(part.data() + account_header_bytes_of(index));
  return true;
}

std::span<const std::byte> inline_payloads(std::span<const std::byte> part, const message_header& header) noexcept {
  return part.subspan(header.header_len + header.tensors * tensor_header_bytes);
}

void encode(const shared_place& place, std::span<std::byte> out) noexcept {
  std::byte* const to = out.data();
  store(to + place_at::arena, place.arena);
  store(to + place_at::flags, place.repeat ? place_at::repeat_flag : 0U);
  store(to + place_at::input, place.input);
  store(to + place_at::output, place.output);
  store(to + place_at::output_bytes, place.output_bytes);
}

bool decode(std::span<const std::byte> part, shared_place& out) noexcept {
  if (part.size() != shared_place_bytes) {
    return false;
  }
  const std::byte* const from = part.data();
  out.arena = load<std::uint32_t>(from + place_at::arena);
  out.repeat = (load<std::uint32_t>(from + place_at::flags) & place_at::repeat_flag) != 0;
  out.input = load<std::uint64_t>(from + place_at::input);
  out.output = load<std::uint64_t>(from + place_at::output);
  out.output_bytes = load<std::uint64_t>(from + place_at::output_bytes);
  return true;
}

}  // namespace penstock::wire
