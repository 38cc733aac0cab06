#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <penstock/client.hpp>
#include <zmq.hpp>

#include "client/cpp/request_table.hpp"
#include "proto/message.hpp"

namespace penstock::link {

/// The parts of a SUBMIT or a SUBMIT_SHARED.
class submit_parts {
 public:
  /// Headers with the payload behind them.
  explicit submit_parts(zmq::message_t&& whole) : parts_{std::move(whole), {}}, count_(1) {}
  submit_parts(zmq::message_t&& head, zmq::message_t&& body) : parts_{std::move(head), std::move(body)}, count_(2) {}

  [[nodiscard]] std::span<zmq::message_t> span() noexcept { return {parts_.data(), count_}; }

 private:
  std::array<zmq::message_t, 2> parts_;
  std::size_t count_;
};

/// SUBMIT, or SUBMIT_SHARED where the payload goes through an arena: it says that it is a repeat when the request was
/// sent before. The timeout that it carries is what is left of the budget at `now`. A payload of at most `inline_bytes`
/// is copied behind the headers, a larger one shares the bytes of the request's.
[[nodiscard]] submit_parts submit_message(pending_request& from, time_point now, std::uint64_t inline_bytes);

/// A message that is only a header.
[[nodiscard]] zmq::message_t bare_message(wire::message_type type, std::uint64_t request_id);
[[nodiscard]] zmq::message_t close_message(std::uint32_t session);
/// PING, GET_STATUS or GET_TRACE.
[[nodiscard]] zmq::message_t question_message(wire::message_type type, std::uint64_t request_id, std::uint64_t cursor);

/// The request id of every HELLO, and that of every ATTACH; no request has them.
inline constexpr std::uint64_t hello_id = 1;
inline constexpr std::uint64_t attach_id = 2;

/// HELLO: its header and its body. `token` is that of the last WELCOME, "" for none.
[[nodiscard]] std::array<zmq::message_t, 2> hello_message(std::uint64_t request_id, std::string_view client_name,
                                                          std::string_view token);
/// ATTACH: its header and its body.
[[nodiscard]] std::array<zmq::message_t, 2> attach_message(std::uint64_t bytes);
/// OPEN: its header and its body.
[[nodiscard]] std::array<zmq::message_t, 2> open_message(std::uint64_t request_id, std::uint32_t pipeline,
                                                         std::string_view name);

}  // namespace penstock::link
