#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>
#include <zmq.hpp>

#include "daemon/net/keys.hpp"

namespace penstock::live {

/// The keys of a ZeroMQ socket of a source or a sink.
struct socket_keys {
  std::shared_ptr<const curve_secret_key> own;
  std::optional<curve_public_key> server{};             ///< of who it connects to
  std::shared_ptr<const authorized_keys> authorized{};  ///< of those who may connect to it, without `server`
};
/// `server_key`: Z85. Throws configuration_error, or file_unreadable.
[[nodiscard]] socket_keys read_socket_keys(const std::string& server_key, const std::filesystem::path& secret_key_file,
                                           const std::filesystem::path& authorized_keys_file);

/// Gives a socket its keys, and tells libzmq which others it takes (ZAP, ZeroMQ's RFC 27). While nobody calls `answer`
/// nobody is let in. One for each context. Thread: the socket's.
class key_check {
 public:
  /// Call it before the socket is bound or connected. Throws zmq::error_t.
  key_check(zmq::context_t& context, zmq::socket_t& socket, const socket_keys& keys);

  /// Where a question of libzmq shows.
  void descriptors(std::vector<pollfd>& wanted) const;
  /// Answers all there are.
  void answer();

 private:
  [[nodiscard]] bool admits(const std::vector<zmq::message_t>& question) const;

  std::shared_ptr<const authorized_keys> authorized_;
  zmq::socket_t questions_;  // closed where it connects
};

}  // namespace penstock::live
