#include "tests/bench/load.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>

#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t most_in_flight = 1024;

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

double percentile(std::vector<double>& sorted, double share) {
  return sorted.empty() ? 0
                        : sorted[std::min(sorted.size() - 1,
                                          static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

}  // namespace

load_client::load_client(const std::string& endpoint, std::uint32_t pipeline, std::size_t floats, bool hello)
    : payload_(random_floats(floats)), sent_at_(most_in_flight) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvtimeo, 20000);
  socket_.connect(endpoint);
  wire::message_header header;
  header.type = wire::message_type::submit;
  header.pipeline = pipeline;
  header.frames = 1;
  header.tensors = 1;
  wire::tensor_header tensor;
  tensor.type = wire::float32_type;
  tensor.dimensions = 2;
  tensor.shape = {1, static_cast<std::int64_t>(floats)};
  tensor.bytes = payload_.size();
  head_.resize(wire::part_bytes(1));
  const auto bytes = std::as_writable_bytes(std::span(head_));
  wire::encode(header, bytes);
  wire::encode(tensor, bytes.subspan(wire::header_bytes));
  if (hello) {
    greet();
  }
}

void load_client::greet() {
  wire::message_header header;
  header.type = wire::message_type::hello;
  std::string head(wire::header_bytes, '\0');
  wire::encode(header, std::as_writable_bytes(std::span(head)));
  (void)socket_.send(zmq::buffer(head), zmq::send_flags::sndmore);
  (void)socket_.send(zmq::buffer(wire::encode(wire::hello{"penstock-bench", ""})), zmq::send_flags::none);
  zmq::message_t part;
  do {
    if (!socket_.recv(part)) {
      throw std::runtime_error("the daemon does not answer HELLO");
    }
  } while (part.more());
}

void load_client::send() {
  const std::uint64_t id = next_id_++;
  std::memcpy(head_.data() + 8, &id, sizeof id);  // request_id, little-endian as this machine is
  sent_at_[id % most_in_flight] = clock::now();
  (void)socket_.send(zmq::buffer(head_), zmq::send_flags::sndmore);
  (void)socket_.send(zmq::buffer(payload_), zmq::send_flags::none);
}

void load_client::receive() {
  zmq::message_t head;
  zmq::message_t body;
  if (!socket_.recv(head) || !head.more() || !socket_.recv(body)) {
    throw std::runtime_error("no reply came");
  }
  wire::message_header header;
  const std::span part{static_cast<const std::byte*>(head.data()), head.size()};
  if (wire::decode(part, header) != wire::decode_error::none || header.code != wire::status::ok ||
      body.size() != payload_.size() || body.more()) {
    throw std::runtime_error("the reply is not the RESULT that was asked for: " +
                             std::string(wire::name_of(header.code)));
  }
  const std::chrono::duration<double, std::micro> took = clock::now() - sent_at_[header.request_id % most_in_flight];
  latencies_us_.push_back(took.count());
}

load_result load_client::run(std::size_t in_flight, std::size_t requests, std::chrono::milliseconds limit) {
  latencies_us_.clear();
  const clock::time_point start = clock::now();
  std::size_t under_way = 0;
  for (; under_way < std::min(in_flight, requests); ++under_way) {
    send();
  }
  std::size_t sent = under_way;
  while (under_way > 0) {
    receive();
    --under_way;
    if (sent < requests && clock::now() - start < limit) {
      send();
      ++sent;
      ++under_way;
    }
  }
  const std::chrono::duration<double> took = clock::now() - start;
  const auto done = static_cast<double>(latencies_us_.size());
  std::sort(latencies_us_.begin(), latencies_us_.end());
  return {done / took.count(), percentile(latencies_us_, 0.5), percentile(latencies_us_, 0.99)};
}

}  // namespace penstock::bench
