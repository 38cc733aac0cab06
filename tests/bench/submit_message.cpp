#include "tests/bench/submit_message.hpp"

#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>

#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock::bench {
namespace {

// In the header.
constexpr std::size_t type_offset = 5;
constexpr std::size_t id_offset = 8;
constexpr std::size_t timeout_offset = 16;
constexpr std::size_t session_offset = 28;
constexpr std::size_t sequence_offset = 32;

// From here on ZeroMQ takes the bytes where they lie.
constexpr std::size_t lent_from = std::size_t{64} << 10U;

// Little-endian, as this machine is.
template <typename Value>
void put(std::string& into, std::size_t at, Value what) noexcept {
  std::memcpy(into.data() + at, &what, sizeof what);
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

void submit_message::send(zmq::socket_t& to) const {
  if (payload_.empty()) {
    require(to.send(zmq::buffer(head_), zmq::send_flags::none));
    return;
  }
  require(to.send(zmq::buffer(head_), zmq::send_flags::sndmore));
  if (payload_.size() < lent_from) {
    require(to.send(zmq::buffer(payload_), zmq::send_flags::none));
    return;
  }
  // Nobody writes to it: ZeroMQ asks for a pointer that is not const, and only reads.
  zmq::message_t lent(
      const_cast<char*>(payload_.data()), payload_.size(), [](void*, void*) {}, nullptr);
  require(to.send(lent, zmq::send_flags::none));
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

}  // namespace penstock::bench
