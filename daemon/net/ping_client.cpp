#include "daemon/net/ping_client.hpp"

#include <array>
#include <stdexcept>
#include <string_view>

#include "proto/message.hpp"

namespace penstock {
namespace {

// ZeroMQ's threads of this context are named "0/ZMQbg/...", to tell them from a shard's.
constexpr int thread_name_prefix = 0;
constexpr int pings_under_way = 2;

// The address to connect to if a socket listens on every address.
std::string own_address(const std::string& endpoint) {
  for (const std::string_view any : {"tcp://0.0.0.0:", "tcp://[::]:"}) {
    if (endpoint.starts_with(any)) {
      return "tcp://127.0.0.1:" + endpoint.substr(any.size());
    }
  }
  return endpoint;
}

}  // namespace

ping_connection::ping_connection(zmq::context_t& context, const std::string& endpoint, const keyring* keys)
    : socket_(context, zmq::socket_type::dealer) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::immediate, true);
  socket_.set(zmq::sockopt::sndhwm, pings_under_way);
  if (keys != nullptr) {
    const curve_key_pair& own = keys->own_client();
    const curve_public_key& server = keys->public_key();
    socket_.set(zmq::sockopt::curve_publickey, zmq::const_buffer(own.public_key.data(), own.public_key.size()));
    socket_.set(zmq::sockopt::curve_secretkey, zmq::const_buffer(own.secret_key.data(), own.secret_key.size()));
    socket_.set(zmq::sockopt::curve_serverkey, zmq::const_buffer(server.data(), server.size()));
  }
  const std::string address = own_address(endpoint);
  socket_.set(zmq::sockopt::ipv6, address.starts_with("tcp://["));
  socket_.connect(address);
}

void ping_connection::ping(std::uint64_t request_id) {
  wire::message_header header;
  header.type = wire::message_type::ping;
  header.request_id = request_id;
  std::array<std::byte, wire::header_bytes> bytes{};
  wire::encode(header, bytes);
  (void)socket_.send(zmq::buffer(bytes), zmq::send_flags::dontwait);
}

bool ping_connection::answered() {
  bool any = false;
  zmq::message_t pong;
  while (socket_.recv(pong, zmq::recv_flags::dontwait)) {
    any = true;
  }
  return any;
}

ping_client::ping_client() {
  context_.set(zmq::ctxopt::thread_name_prefix, thread_name_prefix);
}

ping_connection& ping_client::connect(const std::string& endpoint, const keyring* keys) {
  try {
    return connections_.emplace_back(context_, endpoint, keys);
  } catch (const zmq::error_t& error) {
    throw std::runtime_error(error.what());
  }
}

}  // namespace penstock
