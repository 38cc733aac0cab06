#include "client/cpp/curve_keys.hpp"

#include <array>
#include <cstdio>
#include <string_view>

#include <penstock/request_error.hpp>
#include <sys/stat.h>

#include "base/key_file.hpp"
#include "base/whole_file.hpp"

namespace penstock::link {
namespace {

std::string octal(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777U));
  return text.data();
}

// What others can read may be used by others.
std::string secret_key_in(const std::string& file) {
  constexpr std::size_t most = std::size_t{64} << 10U;
  std::string text;
  try {
    whole_file opened(file);
    if ((opened.facts().st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      throw connect_error("the key file " + file + " has mode " + octal(opened.facts().st_mode) +
                          ", so that others can use the key in it: chmod 600 it, and make a new key if somebody may "
                          "have read this one");
    }
    text = opened.read(most);
  } catch (const file_refused& error) {
    throw connect_error("the key file " + file + " " + error.what());
  } catch (const file_unreadable& error) {
    throw connect_error(std::string("the key file ") + error.what());
  }
  const std::optional<std::string_view> key = only_key(text);
  if (!key) {
    throw connect_error("the key file " + file +
                        " holds no secret key: one line of 40 letters of Z85, as penstock keygen writes it");
  }
  return std::string(*key);
}

std::string public_key_of(const std::string& secret_key) {
  std::array<char, key_letters + 1> text{};
  if (::zmq_curve_public(text.data(), secret_key.c_str()) != 0) {
    throw connect_error("the client's secret key is no CURVE key");
  }
  return text.data();
}

}  // namespace

void curve_keys::arm(zmq::socket_t& socket) const {
  socket.set(zmq::sockopt::curve_serverkey, server_key);
  socket.set(zmq::sockopt::curve_publickey, public_key);
  socket.set(zmq::sockopt::curve_secretkey, secret_key);
}

std::string public_key_in(const std::string& file) {
  return public_key_of(secret_key_in(file));
}

std::optional<curve_keys> keys_of(const client_options& options) {
  const bool has_own = !options.key_file.empty() || !options.secret_key.empty();
  if (options.server_key.empty() && !has_own) {
    return std::nullopt;
  }
  if (options.server_key.empty()) {
    throw connect_error("a key of the client's own needs the daemon's public key beside it (server_key)");
  }
  if (!has_own) {
    throw connect_error(
        "the daemon's key needs a key of the client's own beside it: a file of penstock keygen "
        "(key_file)");
  }
  if (!is_key_text(options.server_key)) {
    throw connect_error("the server key is no public key: it has 40 letters of Z85, as penstock keygen prints it");
  }
  const std::string secret = options.key_file.empty() ? options.secret_key : secret_key_in(options.key_file);
  if (!is_key_text(secret)) {
    throw connect_error("the client's secret key is no key: it has 40 letters of Z85");
  }
  return curve_keys{options.server_key, public_key_of(secret), secret};
}

}  // namespace penstock::link
