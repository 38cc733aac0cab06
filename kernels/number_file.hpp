#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/descriptors.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// The numbers of a file can't be used. what() names the file and says why.
class number_file_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An array of floating-point numbers in an open file, such as the weights of a layer: too many to be kept as a list.
/// Operators read them when they are made. Immutable; several threads may use it.
class number_file {
 public:
  /// `numbers` is open for reading; they begin at byte `offset`, row-major, and fill its rest. `name` is how messages
  /// call it. `state` is another text once the file is changed. Type is f16, f32 or f64.
  number_file(std::string name, file_descriptor numbers, std::uint64_t offset, element_type type,
              std::vector<std::int64_t> shape, std::string state);
  /// Numbers of a file without a name, in memory. Throws std::system_error.
  [[nodiscard]] static std::shared_ptr<const number_file> of(std::vector<std::int64_t> shape,
                                                             std::span<const float> numbers);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& state() const noexcept { return state_; }
  [[nodiscard]] element_type type() const noexcept { return type_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// Of all dimensions.
  [[nodiscard]] std::int64_t count() const noexcept;
  /// "f32[512, 10]"
  [[nodiscard]] std::string text() const;

  /// Reads numbers from `first` on, rounded to f32. Throws number_file_error, also if one is not finite in f32.
  void read(std::int64_t first, std::span<float> into) const;
  /// The whole array in memory, as it lies in the file; the pages are read when they are touched. If somebody cuts the
  /// file meanwhile, touching what is gone ends the process. Throws number_file_error.
  [[nodiscard]] std::shared_ptr<const std::byte> map() const;
  /// The same, writable, for a driver that can't pin other memory; nobody writes to it. nullptr where the file may not
  /// be written to.
  [[nodiscard]] std::shared_ptr<const std::byte> map_writable() const;

 private:
  /// nullptr where it can't be mapped; errno says why.
  [[nodiscard]] std::shared_ptr<const std::byte> map_from(int descriptor, int protection) const;

  std::string name_;
  file_descriptor numbers_;
  std::uint64_t offset_;
  element_type type_;
  std::vector<std::int64_t> shape_;
  std::string state_;
};

}  // namespace penstock
