#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace penstock {

/// A file as numpy.save writes it: format 1.0, its dictionary padded so that the numbers begin at byte 128.
inline std::string npy_text(const std::string& dictionary, const std::string& numbers) {
  std::string text("\x93NUMPY\x01\x00\x76\x00", 10);
  text += dictionary;
  text.resize(127, ' ');
  return text + '\n' + numbers;
}

/// The bytes of numbers as they lie in memory, which is little-endian.
template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

}  // namespace penstock
