#include "tests/bench/zmq/sink_server.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include <zmq.hpp>

namespace penstock::bench {
namespace {

[[noreturn]] void serve(const std::string& endpoint) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.bind(endpoint);
  std::vector<char> place;
  zmq::message_t client;
  zmq::message_t message;
  for (;;) {
    (void)socket.recv(client);
    (void)socket.recv(message);
    if (message.size() == 0) {
      (void)socket.send(client, zmq::send_flags::sndmore);
      (void)socket.send(message, zmq::send_flags::none);
      continue;
    }
    if (place.size() < message.size()) {
      place.resize(message.size());
    }
    std::memcpy(place.data(), message.data(), message.size());
  }
}

}  // namespace

sink_server::sink_server(std::string endpoint)
    : endpoint_(std::move(endpoint)), process_([this] { serve(endpoint_); }) {}

}  // namespace penstock::bench
