#pragma once

#include <string>
#include <string_view>

#include <sodium.h>

namespace penstock {

/// The SHA-256 of bytes, as 64 hexadecimal digits.
class sha256 {
 public:
  sha256() noexcept { ::crypto_hash_sha256_init(&state_); }

  /// The next bytes.
  void add(std::string_view bytes) noexcept;
  /// The next bytes with their number, so that texts in a row can't be cut in another way.
  void add_sized(std::string_view bytes) noexcept;
  /// Once, when all is added.
  [[nodiscard]] std::string digits();

 private:
  crypto_hash_sha256_state state_{};
};

/// Of a text as a whole: what `sha256sum FILE` prints of a file with these bytes.
[[nodiscard]] std::string sha256_of(std::string_view text);

}  // namespace penstock
