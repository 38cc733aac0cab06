#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// A CURVE public key, 32 bytes. Its text is 40 letters of Z85 (ZeroMQ's RFC 32).
using curve_public_key = std::array<std::uint8_t, 32>;

/// Nothing when the text is no key.
[[nodiscard]] std::optional<curve_public_key> parse_curve_key(std::string_view z85);

/// Whether a line of a file of keys says nothing: it is empty, or begins with "#", as no key does (in Z85 a "#" there
/// would be a number beyond 32 bits).
[[nodiscard]] bool is_comment(std::string_view line) noexcept;

/// A key of the process's own, made anew at each start.
struct curve_key_pair {
  curve_public_key public_key{};
  std::array<std::uint8_t, 32> secret_key{};
};
/// Throws std::runtime_error.
[[nodiscard]] curve_key_pair make_curve_key_pair();

/// A CURVE secret key. Wiped from memory when it goes.
class curve_secret_key {
 public:
  /// Reads a file that `penstock keygen` has written: one line of Z85, and comments. Throws configuration_error, which
  /// names the file and never its contents.
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

}  // namespace penstock
