#include "tests/support/raw_peer.hpp"

#include <stdexcept>
#include <utility>

namespace penstock::testing {

namespace {

// The daemon looks whether there is still a connection.
bool is_probe(const raw_message& message) {
  return message.header.type == wire::message_type::pong && message.header.request_id == 0;
}

}  // namespace

raw_peer::raw_peer(const std::string& endpoint) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::reconnect_ivl, 10);
  socket_.connect(endpoint);
}

void raw_peer::send(const std::vector<std::string>& parts) {
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const auto more = index + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    (void)socket_.send(zmq::buffer(parts[index]), more);
  }
}

void raw_peer::send_control(wire::message_type type, std::uint64_t request_id, const std::string& body) {
  wire::message_header header;
  header.type = type;
  header.request_id = request_id;
  std::vector<std::string> parts{bytes_of(header)};
  if (!body.empty()) {
    parts.push_back(body);
  }
  send(parts);
}

std::optional<raw_message> raw_peer::receive(std::chrono::milliseconds patience) {
  if (!taken_in_.empty()) {
    raw_message first = std::move(taken_in_.front());
    taken_in_.pop_front();
    return first;
  }
  std::optional<raw_message> message = next_from_socket(patience);
  while (message && (message->header.type == wire::message_type::goodbye || is_probe(*message))) {
    if (!is_probe(*message)) {
      send_control(wire::message_type::goodbye, 0);
    }
    message = next_from_socket(patience);
  }
  return message;
}

void raw_peer::take_in() {
  while (std::optional<raw_message> message = next_from_socket(std::chrono::milliseconds{0})) {
    if (message->header.type == wire::message_type::goodbye) {
      send_control(wire::message_type::goodbye, 0);
    } else if (!is_probe(*message)) {
      taken_in_.push_back(std::move(*message));
    }
  }
}

std::optional<raw_message> raw_peer::next_from_socket(std::chrono::milliseconds patience) {
  zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
  if (zmq::poll(&item, 1, patience) == 0) {
    return std::nullopt;
  }
  raw_message message;
  zmq::message_t part;
  do {
    (void)socket_.recv(part);
    message.parts.push_back(part.to_string());
  } while (part.more());
  const std::string& head = message.parts.front();
  if (wire::decode(std::as_bytes(std::span(head)), message.header) != wire::decode_error::none) {
    throw std::runtime_error("the daemon sent a header that can't be decoded");
  }
  return message;
}

wire::welcome raw_peer::hello(std::uint64_t inline_bytes, const std::string& token) {
  send_control(wire::message_type::hello, 0, wire::encode(wire::hello{"raw_peer", "0", inline_bytes, token}));
  const std::optional<raw_message> answer = receive();
  if (!answer || answer->header.type != wire::message_type::welcome) {
    throw std::runtime_error("no WELCOME");
  }
  return wire::decode_welcome(std::as_bytes(std::span(answer->parts.at(1)))).value();
}

nlohmann::json raw_peer::status() {
  constexpr std::uint64_t question = 77;
  send_control(wire::message_type::get_status, question);
  for (;;) {
    const std::optional<raw_message> answer = receive();
    if (!answer) {
      throw std::runtime_error("no STATUS");
    }
    if (answer->header.type == wire::message_type::status_report) {
      return answer->json();
    }
    if (answer->header.code == wire::status::hello_required && answer->header.request_id == question) {
      hello();
      send_control(wire::message_type::get_status, question);
    }
  }
}

std::string bytes_of(const wire::message_header& header) {
  std::string bytes(wire::header_bytes, '\0');
  wire::encode(header, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string bytes_of(const wire::tensor_header& header) {
  std::string bytes(wire::tensor_header_bytes, '\0');
  wire::encode(header, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

raw_submit raw_submit::of_iq(std::uint64_t request_id, std::uint32_t pipeline, std::uint32_t frames,
                             std::int64_t samples, char fill) {
  raw_submit made;
  made.header.type = wire::message_type::submit;
  made.header.request_id = request_id;
  made.header.pipeline = pipeline;
  made.header.frames = frames;
  made.header.tensors = 1;
  made.tensor.type = wire::uint8_type;
  made.tensor.dimensions = 3;
  made.tensor.shape = {frames, samples, 2};
  made.tensor.bytes = static_cast<std::uint64_t>(frames) * static_cast<std::uint64_t>(samples) * 2;
  made.payload.assign(made.tensor.bytes, fill);
  return made;
}

}  // namespace penstock::testing
