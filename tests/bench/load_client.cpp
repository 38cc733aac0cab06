#include "tests/bench/load_client.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>

#include "proto/control.hpp"
#include "proto/message.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

// Offsets in the message header.
constexpr std::size_t type_offset = 5;
constexpr std::size_t id_offset = 8;
constexpr std::size_t timeout_offset = 16;
constexpr std::size_t session_offset = 28;
constexpr std::size_t sequence_offset = 32;

// ZeroMQ does not copy payloads from this size on.
constexpr std::size_t zero_copy_bytes = std::size_t{64} << 10U;

// Little-endian, as this machine is.
template <typename Value>
void put(std::string& message, std::size_t offset, Value value) noexcept {
  std::memcpy(message.data() + offset, &value, sizeof value);
}

std::string random_floats(std::size_t count) {
  std::mt19937 generator(20240607);
  std::normal_distribution<float> normal;
  std::string bytes(count * sizeof(float), '\0');
  for (std::size_t index = 0; index < count; ++index) {
    const float value = normal(generator);
    std::memcpy(bytes.data() + index * sizeof value, &value, sizeof value);
  }
  return bytes;
}

void require(const zmq::send_result_t& sent) {
  if (!sent) {
    throw std::runtime_error("a request can't be sent");
  }
}

}  // namespace

submit_message::submit_message(std::uint32_t pipeline, std::size_t floats, std::uint32_t frames)
    : payload_bytes_(floats * frames * sizeof(float)), payload_(random_floats(floats * frames)) {
  wire::message_header header;
  header.type = wire::message_type::submit;
  header.pipeline = pipeline;
  header.frames = frames;
  header.tensors = 1;
  wire::tensor_header tensor;
  tensor.type = wire::float32_type;
  tensor.dimensions = 2;
  tensor.shape = {frames, static_cast<std::int64_t>(floats)};
  tensor.bytes = payload_bytes_;
  head_.resize(wire::part_bytes(1));
  const auto bytes = std::as_writable_bytes(std::span(head_));
  wire::encode(header, bytes);
  wire::encode(tensor, bytes.subspan(wire::header_bytes));
  if (payload_bytes_ <= wire::max_inline_bytes) {
    head_ += std::exchange(payload_, "");
  }
}

void submit_message::send(zmq::socket_t& socket) const {
  if (payload_.empty()) {
    require(socket.send(zmq::buffer(head_), zmq::send_flags::none));
    return;
  }
  require(socket.send(zmq::buffer(head_), zmq::send_flags::sndmore));
  if (payload_.size() < zero_copy_bytes) {
    require(socket.send(zmq::buffer(payload_), zmq::send_flags::none));
    return;
  }
  // ZeroMQ only reads, although it takes a pointer that is not const.
  zmq::message_t uncopied(
      const_cast<char*>(payload_.data()), payload_.size(), [](void*, void*) {}, nullptr);
  require(socket.send(uncopied, zmq::send_flags::none));
}

void submit_message::set_id(std::uint64_t id) noexcept {
  put(head_, id_offset, id);
}

void submit_message::set_timeout(std::chrono::nanoseconds timeout) noexcept {
  put(head_, timeout_offset, static_cast<std::uint64_t>(timeout.count()));
}

void submit_message::set_session(std::uint32_t session) noexcept {
  put(head_, session_offset, session);
}

void submit_message::set_sequence(std::uint64_t sequence) noexcept {
  put(head_, sequence_offset, sequence);
}

void submit_message::set_place(const wire::shared_place& place) {
  put(head_, type_offset, wire::message_type::submit_shared);
  head_.resize(wire::part_bytes(1));
  payload_.resize(wire::shared_place_bytes);
  wire::encode(place, std::as_writable_bytes(std::span(payload_)));
}

std::string hello_head() {
  wire::message_header header;
  header.type = wire::message_type::hello;
  std::string head(wire::header_bytes, '\0');
  wire::encode(header, std::as_writable_bytes(std::span(head)));
  return head;
}

std::string hello_body() {
  return wire::encode(wire::hello{"penstock-bench", "", wire::max_inline_bytes});
}

std::optional<reply> receive_reply(zmq::socket_t& socket) {
  zmq::message_t head;
  if (!socket.recv(head)) {
    return std::nullopt;
  }
  reply received;
  const std::span part{static_cast<const std::byte*>(head.data()), head.size()};
  if (wire::decode(part, received.header) != wire::decode_error::none) {
    throw std::runtime_error("a reply can't be read");
  }
  if (!head.more()) {
    received.payload_bytes = wire::inline_payloads(part, received.header).size();
  }
  zmq::message_t payload;
  for (bool more = head.more(); more; more = payload.more()) {
    (void)socket.recv(payload);
    received.payload_bytes += payload.size();
  }
  return received;
}

namespace {

constexpr std::size_t max_in_flight = 1024;

}  // namespace

load_client::load_client(const std::string& endpoint, std::uint32_t pipeline, std::size_t floats, bool hello,
                         const std::string& identity)
    : message_(pipeline, floats), pipeline_(pipeline), sent_at_(max_in_flight) {
  socket_.set(zmq::sockopt::linger, 0);
  if (!identity.empty()) {
    socket_.set(zmq::sockopt::routing_id, identity);
  }
  socket_.set(zmq::sockopt::rcvtimeo, 20000);
  socket_.connect(endpoint);
  if (hello) {
    greet();
  }
}

void load_client::greet() {
  (void)socket_.send(zmq::buffer(hello_head()), zmq::send_flags::sndmore);
  (void)socket_.send(zmq::buffer(hello_body()), zmq::send_flags::none);
  zmq::message_t part;
  do {
    if (!socket_.recv(part)) {
      throw std::runtime_error("the daemon does not answer HELLO");
    }
  } while (part.more());
}

void load_client::open_session() {
  wire::message_header header;
  header.type = wire::message_type::open_session;
  header.request_id = next_id_++;
  std::string head(wire::header_bytes, '\0');
  wire::encode(header, std::as_writable_bytes(std::span(head)));
  (void)socket_.send(zmq::buffer(head), zmq::send_flags::sndmore);
  (void)socket_.send(zmq::buffer(wire::encode(wire::open_session{pipeline_, ""})), zmq::send_flags::none);
  zmq::message_t answer;
  zmq::message_t body;
  if (!socket_.recv(answer) || !answer.more() || !socket_.recv(body)) {
    throw std::runtime_error("no answer to OPEN");
  }
  const auto opened = wire::decode_session_opened({static_cast<const std::byte*>(body.data()), body.size()});
  if (!opened) {
    throw std::runtime_error("the daemon opens no session");
  }
  message_.set_session(opened->session);
  in_session_ = true;
}

void load_client::share(const wire::shared_place& place) {
  message_.set_place(place);
  shares_ = true;
}

void load_client::send() {
  const std::uint64_t id = next_id_++;
  message_.set_id(id);
  if (in_session_) {
    message_.set_sequence(next_sequence_++);
  }
  sent_at_[id % max_in_flight] = clock::now();
  message_.send(socket_);
}

void load_client::receive() {
  std::optional<reply> received;
  do {
    received = receive_reply(socket_);
    if (!received) {
      throw std::runtime_error("no reply came");
    }
  } while (is_unsolicited(*received));
  const wire::message_header& header = received->header;
  if (header.code != wire::status::ok || received->payload_bytes != (shares_ ? 0 : message_.payload_bytes())) {
    throw std::runtime_error("the reply is not the RESULT that was asked for: " +
                             std::string(wire::name_of(header.code)));
  }
  const std::chrono::duration<double, std::micro> took = clock::now() - sent_at_[header.request_id % max_in_flight];
  latencies_us_.push_back(took.count());
}

load_result load_client::run(std::size_t in_flight, std::size_t requests, std::chrono::milliseconds limit) {
  latencies_us_.clear();
  const clock::time_point start = clock::now();
  std::size_t pending = 0;
  for (; pending < std::min(in_flight, requests); ++pending) {
    send();
  }
  std::size_t sent = pending;
  while (pending > 0) {
    receive();
    --pending;
    if (sent < requests && clock::now() - start < limit) {
      send();
      ++sent;
      ++pending;
    }
  }
  const std::chrono::duration<double> took = clock::now() - start;
  const auto done = static_cast<double>(latencies_us_.size());
  return {done / took.count(), quantile(latencies_us_, 0.5), quantile(latencies_us_, 0.99), latencies_us_.size()};
}

}  // namespace penstock::bench
