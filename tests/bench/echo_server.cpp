#include "tests/bench/echo_server.hpp"

#include <utility>

#include <zmq.hpp>

namespace penstock::bench {
namespace {

[[noreturn]] void serve(const std::string& endpoint, int io_threads) {
  zmq::context_t context(io_threads);
  zmq::socket_t socket(context, zmq::socket_type::router);
  // Without a mark a send never waits for a client that sends faster than it reads, and nothing is dropped but what is
  // for a client that is gone.
  socket.set(zmq::sockopt::sndhwm, 0);
  socket.bind(endpoint);
  zmq::message_t part;
  for (;;) {
    (void)socket.recv(part);
    (void)socket.send(part, part.more() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

}  // namespace

echo_server::echo_server(std::string endpoint, int io_threads)
    : endpoint_(std::move(endpoint)), process_([this, io_threads] { serve(endpoint_, io_threads); }) {}

}  // namespace penstock::bench
