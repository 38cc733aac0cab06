#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/client.hpp>
#include <zmq.hpp>

#include "client/cpp/arena.hpp"
#include "client/cpp/request_table.hpp"
#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock::link {

/// The parts of a SUBMIT or SUBMIT_SHARED.
class submit_parts {
 public:
  /// One part: headers, then payload.
  explicit submit_parts(zmq::message_t&& whole) : parts_{std::move(whole), {}}, count_(1) {}
  submit_parts(zmq::message_t&& head, zmq::message_t&& body) : parts_{std::move(head), std::move(body)}, count_(2) {}

  /// The payload of one more input.
  void add(zmq::message_t&& body) {
    if (several_.empty()) {
      several_.push_back(std::move(parts_.front()));
    }
    several_.push_back(std::move(body));
  }

  [[nodiscard]] std::span<zmq::message_t> span() noexcept {
    return several_.empty() ? std::span(parts_).first(count_) : std::span(several_);
  }

 private:
  std::array<zmq::message_t, 2> parts_;
  std::size_t count_;
  std::vector<zmq::message_t> several_;  // all parts, of a pipeline with several inputs
};

/// Builds SUBMIT, or SUBMIT_SHARED for a payload in an arena, marked as a repeat when the request was sent before. Its
/// timeout is the time left at `now`. A payload of at most `inline_bytes` is copied behind the headers; a larger one is
/// sent without a copy.
[[nodiscard]] submit_parts submit_message(pending_request& request, time_point now, std::uint64_t inline_bytes);

/// A message without a body.
[[nodiscard]] zmq::message_t bare_message(wire::message_type type, std::uint64_t request_id);
[[nodiscard]] zmq::message_t close_message(std::uint32_t session);
/// PING, GET_STATUS, GET_TRACE or GET_VALUES, or the header of SET.
[[nodiscard]] zmq::message_t question_message(wire::message_type type, std::uint64_t request_id, std::uint64_t cursor,
                                              std::uint32_t session = 0);

/// Request ids that are reserved for HELLO and ATTACH.
inline constexpr std::uint64_t hello_id = 1;
inline constexpr std::uint64_t attach_id = 2;

/// HELLO: header and body. `token` is that of the last WELCOME, "" for none.
[[nodiscard]] std::array<zmq::message_t, 2> hello_message(std::uint64_t request_id, std::string_view client_name,
                                                          std::string_view token);
/// ATTACH: header and body.
[[nodiscard]] std::array<zmq::message_t, 2> attach_message(std::uint64_t bytes);
/// OPEN: header and body.
[[nodiscard]] std::array<zmq::message_t, 2> open_message(std::uint64_t request_id, std::uint32_t pipeline,
                                                         std::string_view name);

/// SUBSCRIBE: header and body.
[[nodiscard]] std::array<zmq::message_t, 2> subscribe_message(std::uint64_t request_id, const wire::subscribe& wanted);

/// The bytes of a received part, at any alignment. Valid while the part exists and is not moved.
[[nodiscard]] std::span<const std::byte> bytes_of(const zmq::message_t& part) noexcept;

/// Decodes a RESULT. The result owns the parts, and its views point into them. Payloads may be separate parts or follow
/// the headers in part 0. nullopt when the message does not match `pipeline`: number of tensors or parts, dtype, shape
/// or size; the leading extent of a variable output may be 0 up to its maximum.
[[nodiscard]] std::optional<result> read_result(const wire::message_header& header, std::vector<zmq::message_t>&& parts,
                                                std::shared_ptr<const pipeline_info> pipeline);

/// Decodes a PUBLISHED as read_result does a RESULT; the outputs have the names that PUBLISHER said.
[[nodiscard]] std::optional<result> read_published(const wire::message_header& header,
                                                   std::vector<zmq::message_t>&& parts,
                                                   std::shared_ptr<const wire::publisher> source);

/// Decodes a RESULT_SHARED. The result owns the block of `output_bytes`, and its views point into it. nullopt, and the
/// block unchanged, for the same reasons or when the outputs exceed the block.
[[nodiscard]] std::optional<result> read_shared_result(const wire::message_header& header,
                                                       std::span<const zmq::message_t> parts,
                                                       std::shared_ptr<const pipeline_info> pipeline,
                                                       arena_block& outputs, std::uint64_t output_bytes);

/// The content of an ERROR.
struct daemon_error {
  request_error error;
  bool holds = false;  ///< the daemon may still use the request's memory in the arena
};
/// nullopt when the status is not an error's or the body is malformed.
[[nodiscard]] std::optional<daemon_error> read_error(const wire::message_header& header,
                                                     std::span<const zmq::message_t> parts);

}  // namespace penstock::link
