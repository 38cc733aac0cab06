#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// A CURVE public key, 32 bytes. base/key_file.hpp says what its text is.
using curve_public_key = std::array<std::uint8_t, 32>;

/// nullopt if the text is not a key.
[[nodiscard]] std::optional<curve_public_key> parse_curve_key(std::string_view z85);

/// A key pair that the process makes at each start.
struct curve_key_pair {
  curve_public_key public_key{};
  std::array<std::uint8_t, 32> secret_key{};
};
/// Throws std::runtime_error.
[[nodiscard]] curve_key_pair make_curve_key_pair();

/// A CURVE secret key. The destructor wipes it from memory.
class curve_secret_key {
 public:
  /// Reads a file of `penstock keygen`: one line of Z85, and comments. Throws configuration_error, which names the file
  /// and never its contents.
  explicit curve_secret_key(const std::filesystem::path& file);
  curve_secret_key(const curve_secret_key&) = delete;
  curve_secret_key& operator=(const curve_secret_key&) = delete;
  ~curve_secret_key();

  /// 32 bytes, for the socket.
  [[nodiscard]] const std::array<std::uint8_t, 32>& bytes() const noexcept { return bytes_; }
  /// The public key that belongs to it.
  [[nodiscard]] curve_public_key public_key() const;

 private:
  std::array<std::uint8_t, 32> bytes_{};
};

/// The public keys of authorised clients, with a name for each. Immutable.
class authorized_keys {
 public:
  /// Reads a list: a key on each line, followed by a name for people. Throws configuration_error, which names the file,
  /// the line and the fault: not a key, a key twice, or an empty list.
  static authorized_keys read(const std::filesystem::path& file);
  /// The same from text; `name` is the file in messages.
  static authorized_keys parse(std::string_view text, const std::string& name);

  /// The name of the key, "" if it has none; nullopt if it is not authorised.
  [[nodiscard]] std::optional<std::string_view> find(const curve_public_key& key) const;
  [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }

 private:
  std::map<curve_public_key, std::string> names_;
};

/// The daemon's secret key and the list of authorised clients; never one without the other. Shared by all shards: the
/// admin's thread writes the list, and the ZAP handlers read it once for each connection.
class keyring {
 public:
  /// Reads both files. Throws configuration_error.
  keyring(const std::filesystem::path& secret_key_file, const std::filesystem::path& authorized_keys_file);

  [[nodiscard]] const curve_secret_key& secret() const noexcept { return secret_; }
  [[nodiscard]] const curve_public_key& public_key() const noexcept { return public_key_; }
  /// The key with which the daemon connects to itself (self_probe). It is on no list and never leaves the process.
  [[nodiscard]] const curve_key_pair& own_client() const noexcept { return own_client_; }
  /// The current list. Any thread.
  [[nodiscard]] std::shared_ptr<const authorized_keys> authorized() const;
  /// Replaces the list. Existing connections stay. Any thread.
  void authorize(authorized_keys keys);
  /// Replaces the list by the contents of the file. Throws configuration_error, and changes nothing, if the file is
  /// wrong.
  void reload_authorized_keys(const std::filesystem::path& file);

 private:
  const curve_secret_key secret_;
  const curve_public_key public_key_;
  const curve_key_pair own_client_;
  mutable std::mutex mutex_;
  std::shared_ptr<const authorized_keys> authorized_;
};

}  // namespace penstock
