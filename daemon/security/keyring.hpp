#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "daemon/security/authorized_keys.hpp"
#include "daemon/security/curve_key.hpp"

namespace penstock {

/// The daemon's secret key, and whom it lets in. There is never one without the other. One for all shards; the list is
/// written by the admin's thread and read by the gatekeepers', once for each connection.
class keyring {
 public:
  /// Reads both files. Throws configuration_error.
  keyring(const std::filesystem::path& secret_key_file, const std::filesystem::path& authorized_keys_file);

  [[nodiscard]] const curve_secret_key& secret() const noexcept { return secret_; }
  [[nodiscard]] const curve_public_key& public_key() const noexcept { return public_key_; }
  /// With which the daemon is a client of its own (self_probe). It is on no list, and never leaves the process.
  [[nodiscard]] const curve_key_pair& own_client() const noexcept { return own_client_; }
  /// The list as it is now. Threads: any.
  [[nodiscard]] std::shared_ptr<const authorized_keys> authorized() const;
  /// From here on, these are let in. Connections that stand are not ended. Threads: any.
  void authorize(authorized_keys these);
  /// Reads the list anew, from this file, and lets those in. Throws configuration_error and changes nothing when the
  /// file is wrong.
  void reload_authorized_keys(const std::filesystem::path& file);

 private:
  const curve_secret_key secret_;
  const curve_public_key public_key_;
  const curve_key_pair own_client_;
  mutable std::mutex mutex_;
  std::shared_ptr<const authorized_keys> authorized_;
};

}  // namespace penstock
