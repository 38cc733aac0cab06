#pragma once

#include <optional>
#include <string>

#include <penstock/client_options.hpp>
#include <zmq.hpp>

namespace penstock::link {

/// What a connection is encrypted with: three keys, each as 40 letters of Z85.
struct curve_keys {
  std::string server_key;
  std::string public_key;
  std::string secret_key;

  /// Gives them to a socket that is not connected yet.
  void arm(zmq::socket_t& socket) const;
};

/// The keys that the options name; nothing where they name none. Throws connect_error when one is missing or is no key,
/// or when others can read the file; never with the key in its text.
[[nodiscard]] std::optional<curve_keys> keys_of(const client_options& options);

/// The public half of the secret key in a file. Throws as keys_of does.
[[nodiscard]] std::string public_key_in(const std::string& file);

}  // namespace penstock::link
