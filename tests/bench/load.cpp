#include "tests/bench/load.hpp"

#include <algorithm>
#include <stdexcept>

#include "proto/control.hpp"
#include "proto/message.hpp"
#include "tests/bench/reply.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t most_in_flight = 1024;

}  // namespace

load_client::load_client(const std::string& endpoint, std::uint32_t pipeline, std::size_t floats, bool hello,
                         const std::string& identity)
    : message_(pipeline, floats), pipeline_(pipeline), sent_at_(most_in_flight) {
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
  sent_at_[id % most_in_flight] = clock::now();
  message_.send(socket_);
}

void load_client::receive() {
  std::optional<reply> came;
  do {
    came = receive_reply(socket_);
    if (!came) {
      throw std::runtime_error("no reply came");
    }
  } while (is_unasked(*came));
  const wire::message_header& header = came->header;
  if (header.code != wire::status::ok || came->payload_bytes != (shares_ ? 0 : message_.payload_bytes())) {
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
  return {done / took.count(), quantile(latencies_us_, 0.5), quantile(latencies_us_, 0.99), latencies_us_.size()};
}

}  // namespace penstock::bench
