#include "tests/bench/echo_server.hpp"

#include <stdexcept>
#include <utility>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
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

echo_server::echo_server(std::string endpoint) : endpoint_(std::move(endpoint)), pid_(::fork()) {
  if (pid_ < 0) {
    throw std::runtime_error("cannot start a process");
  }
  if (pid_ == 0) {
    try {
      serve(endpoint_);
    } catch (const zmq::error_t&) {
      ::_exit(1);
    }
  }
}

echo_server::~echo_server() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace penstock::bench
