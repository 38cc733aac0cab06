#include "tests/bench/echo_server.hpp"

#include <utility>

#include <zmq.hpp>

namespace penstock::bench {
namespace {

[[noreturn]] void serve(const std::string& endpoint) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.set(zmq::sockopt::router_mandatory, 1);
  socket.bind(endpoint);
  zmq::message_t part;
  for (;;) {
    (void)socket.recv(part);
    (void)socket.send(part, part.more() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

}  // namespace

echo_server::echo_server(std::string endpoint)
    : endpoint_(std::move(endpoint)), process_([this] { serve(endpoint_); }) {}

}  // namespace penstock::bench
