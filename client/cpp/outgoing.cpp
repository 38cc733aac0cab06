#include "client/cpp/outgoing.hpp"

#include <algorithm>
#include <string>

#include "client/cpp/wire_dtype.hpp"
#include "penstock_version.hpp"
#include "proto/control.hpp"

namespace penstock::link {
namespace {

std::span<std::byte> writable(zmq::message_t& part) {
  return {static_cast<std::byte*>(part.data()), part.size()};
}

zmq::message_t header_message(const wire::message_header& header) {
  zmq::message_t part{wire::header_bytes};
  wire::encode(header, writable(part));
  return part;
}

wire::tensor_header tensor_of(const pending_request& from) {
  const tensor_info& input = from.pipeline->input;
  wire::tensor_header tensor;
  tensor.type = dtype_of(input.dtype).value_or(wire::data_type{});
  tensor.dimensions = static_cast<std::uint8_t>(std::min(input.shape.size() + 1, wire::max_dimensions));
  tensor.bytes = from.payload.bytes();
  tensor.shape[0] = from.frames;
  std::copy_n(input.shape.begin(), tensor.dimensions - 1, tensor.shape.begin() + 1);
  if (from.leading > 0) {
    tensor.shape[1] = from.leading;
  }
  return tensor;
}

}  // namespace

submit_parts submit_message(pending_request& from, time_point now, std::uint64_t inline_bytes) {
  wire::message_header header;
  header.type = from.payload.shared() ? wire::message_type::submit_shared : wire::message_type::submit;
  header.request_id = from.id;
  header.pipeline = from.pipeline->id;
  header.tensors = 1;
  header.frames = from.frames;
  header.trace_id = from.trace_id;
  if (from.session != nullptr) {
    header.session = from.session->number();
    header.sequence = from.sequence;
  }
  if (from.deadline != never) {
    const auto left = std::chrono::nanoseconds{from.deadline - now}.count();
    header.timeout_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(left, 1));
  }
  const bool inlined = !from.payload.shared() && inline_bytes > 0 && from.payload.bytes() <= inline_bytes;
  zmq::message_t head{wire::part_bytes(1) + (inlined ? from.payload.bytes() : 0)};
  wire::encode(header, writable(head));
  wire::encode(tensor_of(from), writable(head).subspan(wire::header_bytes));
  if (inlined) {
    std::ranges::copy(from.payload.contents(), writable(head).subspan(wire::part_bytes(1)).begin());
    return submit_parts{std::move(head)};
  }
  if (from.payload.shared()) {
    zmq::message_t place{wire::shared_place_bytes};
    wire::encode(from.payload.place(/*repeat=*/from.sent), writable(place));
    return {std::move(head), std::move(place)};
  }
  return {std::move(head), from.payload.message()};
}

zmq::message_t bare_message(wire::message_type type, std::uint64_t request_id) {
  return question_message(type, request_id, 0);
}

zmq::message_t question_message(wire::message_type type, std::uint64_t request_id, std::uint64_t cursor) {
  wire::message_header header;
  header.type = type;
  header.request_id = request_id;
  header.sequence = cursor;
  return header_message(header);
}

zmq::message_t close_message(std::uint32_t session) {
  wire::message_header header;
  header.type = wire::message_type::close_session;
  header.session = session;
  return header_message(header);
}

std::array<zmq::message_t, 2> hello_message(std::uint64_t request_id, std::string_view client_name,
                                            std::string_view token) {
  const std::string body =
      wire::encode(wire::hello{std::string(client_name), version, wire::max_inline_bytes, std::string(token)});
  return {bare_message(wire::message_type::hello, request_id), zmq::message_t{body.data(), body.size()}};
}

std::array<zmq::message_t, 2> attach_message(std::uint64_t bytes) {
  const std::string body = wire::encode(wire::attach{bytes});
  return {bare_message(wire::message_type::attach, attach_id), zmq::message_t{body.data(), body.size()}};
}

std::array<zmq::message_t, 2> open_message(std::uint64_t request_id, std::uint32_t pipeline, std::string_view name) {
  const std::string body = wire::encode(wire::open_session{pipeline, std::string(name)});
  return {bare_message(wire::message_type::open_session, request_id), zmq::message_t{body.data(), body.size()}};
}

}  // namespace penstock::link
