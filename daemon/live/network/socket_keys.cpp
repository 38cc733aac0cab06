#include "daemon/live/network/socket_keys.hpp"

#include <array>
#include <cstring>
#include <string_view>

namespace penstock::live {
namespace {

constexpr std::string_view domain_name = "penstock.live";
// The parts of a ZAP question about CURVE, in this order.
enum zap_part : std::size_t { version, request_id, domain, address, routing_id, mechanism, key, zap_parts };

template <std::size_t Size>
zmq::const_buffer buffer_of(const std::array<std::uint8_t, Size>& bytes) noexcept {
  return {bytes.data(), bytes.size()};
}

}  // namespace

socket_keys read_socket_keys(const std::string& server_key, const std::filesystem::path& secret_key_file,
                             const std::filesystem::path& authorized_keys_file) {
  socket_keys made{.own = std::make_shared<const curve_secret_key>(secret_key_file)};
  if (!server_key.empty()) {
    made.server = parse_curve_key(server_key);
  } else {
    made.authorized = std::make_shared<const authorized_keys>(authorized_keys::read(authorized_keys_file));
  }
  return made;
}

key_check::key_check(zmq::context_t& context, zmq::socket_t& socket, const socket_keys& keys)
    : authorized_(keys.authorized) {
  socket.set(zmq::sockopt::curve_secretkey, buffer_of(keys.own->bytes()));
  if (keys.server) {
    const curve_public_key own = keys.own->public_key();
    socket.set(zmq::sockopt::curve_publickey, buffer_of(own));
    socket.set(zmq::sockopt::curve_serverkey, buffer_of(*keys.server));
    return;
  }
  // Without a ZAP socket libzmq would admit every key.
  questions_ = zmq::socket_t(context, zmq::socket_type::rep);
  questions_.set(zmq::sockopt::linger, 0);
  questions_.bind("inproc://zeromq.zap.01");
  socket.set(zmq::sockopt::zap_domain, domain_name);
  socket.set(zmq::sockopt::curve_server, true);
}

void key_check::descriptors(std::vector<pollfd>& wanted) const {
  if (questions_) {
    wanted.push_back({questions_.get(zmq::sockopt::fd), POLLIN, 0});
  }
}

void key_check::answer() {
  std::vector<zmq::message_t> question(1);
  while (questions_ && questions_.recv(question.front(), zmq::recv_flags::dontwait)) {
    while (question.back().more()) {
      (void)questions_.recv(question.emplace_back());
    }
    const bool admitted = admits(question);
    const std::string number = question.size() > request_id ? question[request_id].to_string() : "";
    const std::array<std::string_view, 6> said{
        "1.0", number, admitted ? "200" : "400", admitted ? "OK" : "not authorised", "", ""};
    for (std::size_t part = 0; part < said.size(); ++part) {
      (void)questions_.send(zmq::buffer(said[part]),
                            part + 1 < said.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
    question.resize(1);
  }
}

// Only libzmq itself can ask, within its context.
bool key_check::admits(const std::vector<zmq::message_t>& question) const {
  curve_public_key theirs{};
  if (question.size() != zap_parts || question[mechanism].to_string_view() != "CURVE" ||
      question[key].size() != theirs.size()) {
    return false;
  }
  std::memcpy(theirs.data(), question[key].data(), theirs.size());
  return authorized_ != nullptr && authorized_->find(theirs).has_value();
}

}  // namespace penstock::live
