#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/security/curve_key.hpp"

namespace penstock {

/// The public keys of the clients that are let in, and the name that stands behind each. Immutable once made.
class authorized_keys {
 public:
  /// Reads a list: a key a line and, behind it, a name for people. Throws configuration_error, which names the file,
  /// the line and what is wrong: no key, a key twice, or a list of nobody.
  static authorized_keys read(const std::filesystem::path& file);
  /// The same from text; `name` stands for the file in messages.
  static authorized_keys parse(std::string_view text, const std::string& name);

  /// The name of that key, "" where it has none; nothing when it is not in the list.
  [[nodiscard]] std::optional<std::string_view> find(const curve_public_key& key) const;
  [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }

 private:
  std::map<curve_public_key, std::string> names_;
};

}  // namespace penstock
