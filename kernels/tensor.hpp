#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Type of one element. Integer IQ (`cu8`, `ci8`, `ci16`) is one element of two integers, I then Q. `boolean` ("bool")
/// is a byte: 0 is false, any other is true, and operators write 1. `bf16` is the upper half of an f32.
enum class element_type : std::uint8_t {
  u8,
  i8,
  i16,
  i32,
  f32,
  cf32,
  cu8,
  ci8,
  ci16,
  u16,
  i64,
  f16,
  bf16,
  f64,
  boolean
};
/// Of element_type.
inline constexpr std::size_t element_types = 15;

/// Bytes of one element; a complex one counts both parts.
[[nodiscard]] std::size_t size_of(element_type type) noexcept;
/// The name that the configuration uses: "u8", "cf32", ...
[[nodiscard]] std::string_view name_of(element_type type) noexcept;
[[nodiscard]] std::optional<element_type> element_type_of(std::string_view name) noexcept;
[[nodiscard]] bool is_complex(element_type type) noexcept;
[[nodiscard]] bool is_floating(element_type type) noexcept;

/// Shape and element type of ONE frame. A batch holds its frames one after the other, row-major.
struct tensor_spec {
  element_type type = element_type::f32;
  /// In elements, outermost first; never empty; each extent ≥ 1.
  std::vector<std::int64_t> shape;
  /// True if shape[0] is a maximum ("max N" in the configuration).
  bool variable = false;

  bool operator==(const tensor_spec&) const = default;

  /// Elements of a frame, at most.
  [[nodiscard]] std::int64_t elements() const noexcept;
  /// Elements of a frame whose leading dimension is `leading` (ignored unless `variable`).
  [[nodiscard]] std::int64_t elements(std::int64_t leading) const noexcept;
  /// Bytes of a frame, at most.
  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] std::size_t bytes(std::int64_t leading) const noexcept;
  /// "cf32[1024]", "f32[max 512, 2]": how logs and errors show it.
  [[nodiscard]] std::string text() const;
};

/// The part of a batch that a run works on.
struct batch_extent {
  std::int64_t frames = 0;
  /// Leading dimension of the inputs in this batch, which sets the distance between frames. Used for `variable` specs
  /// only. The leading dimension of the output is rate.most(leading) if the operator has a rate, else the same.
  std::int64_t leading = 0;
};

/// A tensor as rows along its last axis.
///
/// The rows of a batch lie one after the other in memory, frame after frame, each of `length(extent)` elements. With
/// one dimension the row is the whole frame, so a `variable` spec has rows of variable length. With more dimensions, a
/// `variable` leading extent changes only the number of rows.
class frame_rows {
 public:
  frame_rows() = default;
  explicit frame_rows(const tensor_spec& spec) noexcept;

  /// Elements of a row, at most.
  [[nodiscard]] std::int64_t max_length() const noexcept { return length_; }
  /// Elements of each row in this batch.
  [[nodiscard]] std::int64_t length(const batch_extent& extent) const noexcept {
    return variable_length_ ? extent.leading : length_;
  }
  /// Rows in all frames of this batch together.
  [[nodiscard]] std::int64_t count(const batch_extent& extent) const noexcept {
    return extent.frames * inner_ * (variable_count_ ? extent.leading : leading_);
  }
  [[nodiscard]] bool has_variable_length() const noexcept { return variable_length_; }

 private:
  std::int64_t length_ = 0;
  std::int64_t leading_ = 1;  ///< the first extent, unless it is the row itself
  std::int64_t inner_ = 1;    ///< the extents between the first and the last
  bool variable_length_ = false;
  bool variable_count_ = false;
};

}  // namespace penstock
