#include "daemon/net/keys.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include <string.h>  // explicit_bzero
#include <zmq.h>

#include "base/configuration_error.hpp"
#include "base/guarded_file.hpp"
#include "base/key_file.hpp"

namespace penstock {
namespace {

// Keys have 40 letters each, so a larger file is not a key file.
constexpr std::size_t largest = std::size_t{1} << 20U;

using key_text = std::array<char, key_letters + 1>;  // with a 0 at its end

}  // namespace

std::optional<curve_public_key> parse_curve_key(std::string_view z85) {
  if (!is_key_text(z85)) {
    return std::nullopt;
  }
  key_text text{};
  z85.copy(text.data(), key_letters);
  curve_public_key key{};
  const bool decoded = ::zmq_z85_decode(key.data(), text.data()) != nullptr;
  ::explicit_bzero(text.data(), text.size());
  return decoded ? std::optional{key} : std::nullopt;
}

curve_secret_key::curve_secret_key(const std::filesystem::path& file) {
  std::string text = read_guarded_file(file, file_guard::secret, largest);
  const std::optional<std::string_view> line = only_key(text);
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

namespace {

constexpr std::string_view blanks = " \t\r";
constexpr std::size_t longest_name = 255;  // of a ZAP user id

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// The name in a line, limited to what a log can show.
std::string name_in(std::string_view rest) {
  std::string name(trimmed(rest).substr(0, longest_name));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char letter) { return letter < 0x20 || letter == 0x7F; }, '?');
  return name;
}

}  // namespace

authorized_keys authorized_keys::read(const std::filesystem::path& file) {
  return parse(read_guarded_file(file, file_guard::trusted, largest), file.string());
}

authorized_keys authorized_keys::parse(std::string_view text, const std::string& name) {
  authorized_keys made;
  std::size_t number = 0;
  while (const std::optional<std::string_view> line = take_key_line(text, number)) {
    const std::string place = name + ":" + std::to_string(number) + ": ";
    const std::size_t gap = std::min(line->find_first_of(blanks), line->size());
    const std::optional<curve_public_key> key = parse_curve_key(line->substr(0, gap));
    if (!key) {
      throw configuration_error(place +
                                "does not begin with a public key of 40 letters, as penstock keygen prints it; a "
                                "comment begins with #");
    }
    if (!made.names_.emplace(*key, name_in(line->substr(gap))).second) {
      throw configuration_error(place + "has a key that stands further up too");
    }
  }
  if (made.names_.empty()) {
    throw configuration_error(name + ": holds no key, so that nobody could connect; penstock keygen makes one");
  }
  return made;
}

std::optional<std::string_view> authorized_keys::find(const curve_public_key& key) const {
  const auto found = names_.find(key);
  return found == names_.end() ? std::nullopt : std::optional<std::string_view>{found->second};
}

keyring::keyring(const std::filesystem::path& secret_key_file, const std::filesystem::path& authorized_keys_file)
    : secret_(secret_key_file),
      public_key_(secret_.public_key()),
      own_client_(make_curve_key_pair()),
      authorized_(std::make_shared<const authorized_keys>(authorized_keys::read(authorized_keys_file))) {}

std::shared_ptr<const authorized_keys> keyring::authorized() const {
  const std::lock_guard lock(mutex_);
  return authorized_;
}

void keyring::authorize(authorized_keys keys) {
  auto fresh = std::make_shared<const authorized_keys>(std::move(keys));
  const std::lock_guard lock(mutex_);
  authorized_ = std::move(fresh);
}

void keyring::reload_authorized_keys(const std::filesystem::path& file) {
  authorize(authorized_keys::read(file));
}

}  // namespace penstock
