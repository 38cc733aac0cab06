#include "client/cpp/curve_keys.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <penstock/request_error.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cpp/file_descriptor.hpp"

namespace penstock::link {
namespace {

constexpr std::size_t text_letters = 40;
constexpr std::string_view z85_letters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

bool is_key(std::string_view text) noexcept {
  return text.size() == text_letters && text.find_first_not_of(z85_letters) == std::string_view::npos;
}

std::string_view trimmed(std::string_view line) noexcept {
  const std::size_t last = line.find_last_not_of(" \t\r");
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

[[noreturn]] void refuse_unreadable(const std::string& file, int error) {
  throw connect_error("can't read the key file " + file + ": " + std::generic_category().message(error));
}

// What others can read may be used by others. It is judged as it is opened; what is no file is not waited for.
void check(const std::string& file, int descriptor) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) {
    refuse_unreadable(file, errno);
  }
  if (!S_ISREG(found.st_mode)) {
    throw connect_error("the key file " + file + " is no regular file");
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(found.st_mode & 07777U));
    throw connect_error("the key file " + file + " has mode " + mode.data() +
                        ", so that others can use the key in it: chmod 600 it, and make a new key if somebody may "
                        "have read this one");
  }
}

// The whole of it, or a connect_error.
std::string content_of(const std::string& file) {
  constexpr std::size_t most = std::size_t{64} << 10U;
  const file_descriptor opened{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (!opened) {
    refuse_unreadable(file, errno);
  }
  check(file, opened.number());
  std::string text(most, '\0');
  std::size_t count = 0;
  while (count < text.size()) {
    const ssize_t more = ::read(opened.number(), text.data() + count, text.size() - count);
    if (more == 0) {
      break;
    }
    if (more < 0 && errno != EINTR) {
      refuse_unreadable(file, errno);
    }
    count += static_cast<std::size_t>(std::max<ssize_t>(more, 0));
  }
  text.resize(count);
  return text;
}

// A comment begins with "#", as no key does: in Z85 it would be a number beyond 32 bits there.
std::string secret_key_in(const std::string& file) {
  std::istringstream in{content_of(file)};
  std::string found;
  std::size_t lines = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string_view text = trimmed(line);
    if (!text.empty() && text.front() != '#') {
      found = text;
      ++lines;
    }
  }
  if (lines != 1 || !is_key(found)) {
    throw connect_error("the key file " + file +
                        " holds no secret key: one line of 40 letters of Z85, as penstock keygen writes it");
  }
  return found;
}

std::string public_key_of(const std::string& secret_key) {
  std::array<char, text_letters + 1> text{};
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
  if (!is_key(options.server_key)) {
    throw connect_error("the server key is no public key: it has 40 letters of Z85, as penstock keygen prints it");
  }
  const std::string secret = options.key_file.empty() ? options.secret_key : secret_key_in(options.key_file);
  if (!is_key(secret)) {
    throw connect_error("the client's secret key is no key: it has 40 letters of Z85");
  }
  return curve_keys{options.server_key, public_key_of(secret), secret};
}

}  // namespace penstock::link
