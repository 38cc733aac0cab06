#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// What one element of a tensor is. Integer IQ (`cu8`, `ci8`, `ci16`) is one element of two integers, I then Q.
enum class element_type : std::uint8_t { u8, i8, i16, i32, f32, cf32, cu8, ci8, ci16 };

/// Bytes of one element; a complex one counts both parts.
[[nodiscard]] std::size_t size_of(element_type type) noexcept;
/// The name that the configuration uses: "u8", "cf32", ...
[[nodiscard]] std::string_view name_of(element_type type) noexcept;
[[nodiscard]] std::optional<element_type> element_type_of(std::string_view name) noexcept;
[[nodiscard]] bool is_complex(element_type type) noexcept;
[[nodiscard]] bool is_floating(element_type type) noexcept;

/// The shape and the element type of ONE frame of a tensor; a batch holds frames of it one after the other, row-major.
struct tensor_spec {
  element_type type = element_type::f32;
  /// In elements, outermost first; never empty; each extent ≥ 1.
  std::vector<std::int64_t> shape;
  /// Whether shape[0] is only the most that the leading dimension can be ("max N" in the configuration).
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

}  // namespace penstock
