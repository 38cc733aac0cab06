#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// A .npy file can't be read. what() says what is wrong with it, without its name.
class npy_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the header of a .npy file says.
struct npy_header {
  std::string descriptor;      ///< as numpy writes it, such as "<f4"; "" where the elements are not plain numbers
  bool fortran_order = false;  ///< the first index runs fastest; never where there is one dimension
  std::vector<std::int64_t> shape;
};

/// The descriptor of the wire's numbers: "<f4" for "f32", "<c8" for "c64"; "" for a type that numpy does not have. It
/// has no bf16: with ml_dtypes, and without, it writes and reads two bytes without a type.
[[nodiscard]] std::string_view npy_descriptor_of(std::string_view dtype) noexcept;

/// Reads a header of format 1.0, 2.0 or 3.0, from a file's first byte up to its first number. `read` fills a span with
/// the file's next bytes and returns how many there were. Throws npy_error, and what `read` throws.
[[nodiscard]] npy_header read_npy_header(const std::function<std::size_t(std::span<std::byte>)>& read);

/// The header, of format 1.0, of an array in C order whose shape is `frames` and then `frame_shape`. Its size, a
/// multiple of 64 and at least 128 bytes, does not depend on `frames`: it can be overwritten when the array grows.
[[nodiscard]] std::string print_npy_header(std::string_view descriptor, std::uint64_t frames,
                                           std::span<const std::int64_t> frame_shape);

/// The numbers of a .npy file, row by row.
struct npy_array {
  std::vector<std::int64_t> shape;
  bool is_complex = false;
  std::vector<double> real;
  std::vector<double> imaginary;  ///< as many as `real` where is_complex, else none
};

/// Reads a whole file of float32, float64, complex64 or complex128, little-endian, in C order, of any number of
/// dimensions. Every number is finite, there is at least one, and there are at most 2²² of them. Throws npy_error;
/// file_unreadable (base/whole_file.hpp) when the file could not be read this time.
[[nodiscard]] npy_array read_npy(const std::filesystem::path& file);

}  // namespace penstock
