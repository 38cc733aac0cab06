#include "daemon/security/keyring.hpp"

#include <utility>

namespace penstock {

keyring::keyring(const std::filesystem::path& secret_key_file, const std::filesystem::path& authorized_keys_file)
    : secret_(secret_key_file),
      public_key_(secret_.public_key()),
      own_client_(make_curve_key_pair()),
      authorized_(std::make_shared<const authorized_keys>(authorized_keys::read(authorized_keys_file))) {}

std::shared_ptr<const authorized_keys> keyring::authorized() const {
  const std::lock_guard lock(mutex_);
  return authorized_;
}

void keyring::authorize(authorized_keys these) {
  auto fresh = std::make_shared<const authorized_keys>(std::move(these));
  const std::lock_guard lock(mutex_);
  authorized_ = std::move(fresh);
}

void keyring::reload_authorized_keys(const std::filesystem::path& file) {
  authorize(authorized_keys::read(file));
}

}  // namespace penstock
