#include "base/sha256.hpp"

#include <array>
#include <cstdint>

namespace penstock {

void sha256::add(std::string_view bytes) noexcept {
  ::crypto_hash_sha256_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

void sha256::add_sized(std::string_view bytes) noexcept {
  const std::uint64_t size = bytes.size();
  add({reinterpret_cast<const char*>(&size), sizeof size});
  add(bytes);
}

std::string sha256::digits() {
  std::array<unsigned char, crypto_hash_sha256_BYTES> bytes{};
  ::crypto_hash_sha256_final(&state_, bytes.data());
  std::string text(2 * bytes.size() + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

std::string sha256_of(std::string_view text) {
  sha256 sum;
  sum.add(text);
  return sum.digits();
}

}  // namespace penstock
