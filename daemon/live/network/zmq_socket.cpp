#include "daemon/live/network/zmq_socket.hpp"

#include <stdexcept>

namespace penstock::live {

void keep_connected(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::ipv6, true);
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 500);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 30);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, 10);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, 3);
}

std::vector<std::string> bind_all(zmq::socket_t& socket, const std::vector<std::string>& endpoints) {
  std::vector<std::string> bound;
  for (const std::string& endpoint : endpoints) {
    try {
      socket.bind(endpoint);
    } catch (const zmq::error_t& error) {
      throw std::runtime_error("cannot bind to " + endpoint + ": " + error.what());
    }
    bound.push_back(socket.get(zmq::sockopt::last_endpoint));
  }
  return bound;
}

void connect_all(zmq::socket_t& socket, const std::vector<std::string>& endpoints) {
  for (const std::string& endpoint : endpoints) {
    try {
      socket.connect(endpoint);
    } catch (const zmq::error_t& error) {
      throw std::runtime_error("cannot connect to " + endpoint + ": " + error.what());
    }
  }
}

}  // namespace penstock::live
