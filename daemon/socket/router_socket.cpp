#include "daemon/socket/router_socket.hpp"

#include <stdexcept>

namespace penstock {

router_socket::router_socket(const router_settings& settings)
    : context_(1), socket_(context_, zmq::socket_type::router) {
  // Without MANDATORY a reply to a client that is slow or gone is dropped without a word.
  socket_.set(zmq::sockopt::router_mandatory, 1);
  // A client that reconnects with its routing id takes the place of its old connection.
  socket_.set(zmq::sockopt::router_handover, true);
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(settings.max_part_bytes));
  socket_.set(zmq::sockopt::sndhwm, settings.replies_under_way);
  // No ZeroMQ heartbeats from here: in libzmq 4.3.4 a connection that was taken over by its client's next one and then
  // closes aborts the process at the next beat. The kernel's keepalive finds peers that are gone without a word.
  socket_.set(zmq::sockopt::tcp_keepalive, 1);
  socket_.set(zmq::sockopt::tcp_keepalive_idle, 30);
  socket_.set(zmq::sockopt::tcp_keepalive_intvl, 10);
  socket_.set(zmq::sockopt::tcp_keepalive_cnt, 3);
  socket_.set(zmq::sockopt::handshake_ivl, 5000);
  socket_.set(zmq::sockopt::linger, 0);
  for (const std::string& endpoint : settings.listen) {
    try {
      socket_.bind(endpoint);
    } catch (const zmq::error_t& error) {
      throw std::runtime_error("cannot listen on " + endpoint + ": " + error.what());
    }
    endpoints_.push_back(socket_.get(zmq::sockopt::last_endpoint));
  }
}

int router_socket::descriptor() {
  return socket_.get(zmq::sockopt::fd);
}

bool router_socket::readable() {
  return (socket_.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0;
}

void router_socket::close(int linger_ms) noexcept {
  try {
    socket_.set(zmq::sockopt::linger, linger_ms);
  } catch (const zmq::error_t&) {
    // Closed before.
  }
  socket_.close();
  context_.close();
}

}  // namespace penstock
