#pragma once

#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::live {

/// Bytes from hexadecimal digits; blanks between them are ignored.
inline std::vector<std::byte> from_hex(std::string_view text) {
  std::string digits;
  for (const char each : text) {
    if (std::isxdigit(static_cast<unsigned char>(each)) != 0) {
      digits += each;
    }
  }
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at + 1 < digits.size(); at += 2) {
    bytes.push_back(static_cast<std::byte>(std::strtoul(digits.substr(at, 2).c_str(), nullptr, 16)));
  }
  return bytes;
}

}  // namespace penstock::live
