#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace penstock {

/// A .npy file can't be read as numbers. what() says what is wrong with it, without its name.
class npy_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The numbers of a .npy file, row by row.
struct npy_array {
  std::vector<std::int64_t> shape;
  bool is_complex = false;
  std::vector<double> real;
  std::vector<double> imaginary;  ///< as many as `real` where is_complex, else none
};

/// Reads format 1.0, 2.0 or 3.0 with float32, float64, complex64 or complex128, little-endian, in C order, of any
/// number of dimensions. Every number is finite, there is at least one, and there are at most 2²² of them. Throws
/// npy_error; file_unreadable (daemon/files) when the file could not be read this time.
[[nodiscard]] npy_array read_npy(const std::filesystem::path& file);

}  // namespace penstock
