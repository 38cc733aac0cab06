#include "daemon/security/curve_key.hpp"

#include <array>
#include <stdexcept>
#include <string>

#include <string.h>  // explicit_bzero
#include <zmq.h>

#include "daemon/pipeline/declaration.hpp"
#include "daemon/security/guarded_file.hpp"

namespace penstock {
namespace {

constexpr std::size_t text_letters = 40;
using key_text = std::array<char, text_letters + 1>;  // with a 0 at its end
constexpr std::string_view z85_letters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

std::string_view without_end(std::string_view line) noexcept {
  const std::size_t last = line.find_last_not_of(" \t\r");
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// The one line of a text that is no comment; nothing when there is none, or several.
std::optional<std::string_view> only_line(std::string_view text) {
  std::optional<std::string_view> found;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = without_end(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (is_comment(line)) {
      continue;
    }
    if (found) {
      return std::nullopt;
    }
    found = line;
  }
  return found;
}

}  // namespace

std::optional<curve_public_key> parse_curve_key(std::string_view z85) {
  if (z85.size() != text_letters || z85.find_first_not_of(z85_letters) != std::string_view::npos) {
    return std::nullopt;
  }
  std::array<char, text_letters + 1> text{};
  z85.copy(text.data(), text_letters);
  curve_public_key key{};
  const bool decoded = ::zmq_z85_decode(key.data(), text.data()) != nullptr;
  ::explicit_bzero(text.data(), text.size());
  return decoded ? std::optional{key} : std::nullopt;
}

bool is_comment(std::string_view line) noexcept {
  line = without_end(line);
  return line.empty() || line.front() == '#';
}

curve_secret_key::curve_secret_key(const std::filesystem::path& file) {
  std::string text = read_guarded_file(file, file_guard::secret);
  const std::optional<std::string_view> line = only_line(text);
  std::optional<std::array<std::uint8_t, 32>> key = line ? parse_curve_key(*line) : std::nullopt;
  ::explicit_bzero(text.data(), text.size());
  if (!key) {
    throw configuration_error(file.string() +
                              ": holds no secret key: one line of 40 letters of Z85, as penstock keygen writes it");
  }
  bytes_ = *key;
  ::explicit_bzero(key->data(), key->size());
}

curve_secret_key::~curve_secret_key() {
  ::explicit_bzero(bytes_.data(), bytes_.size());
}

curve_public_key curve_secret_key::public_key() const {
  key_text secret{};
  key_text made{};
  curve_public_key found{};
  const bool derived = ::zmq_z85_encode(secret.data(), bytes_.data(), bytes_.size()) != nullptr &&
                       ::zmq_curve_public(made.data(), secret.data()) == 0 &&
                       ::zmq_z85_decode(found.data(), made.data()) != nullptr;
  ::explicit_bzero(secret.data(), secret.size());
  if (!derived) {
    throw std::runtime_error("the public key can't be worked out from the secret one");
  }
  return found;
}

curve_key_pair make_curve_key_pair() {
  key_text public_key{};
  key_text secret_key{};
  curve_key_pair made;
  if (::zmq_curve_keypair(public_key.data(), secret_key.data()) != 0 ||
      ::zmq_z85_decode(made.public_key.data(), public_key.data()) == nullptr ||
      ::zmq_z85_decode(made.secret_key.data(), secret_key.data()) == nullptr) {
    throw std::runtime_error("libzmq can't make a pair of keys");
  }
  return made;
}

}  // namespace penstock
