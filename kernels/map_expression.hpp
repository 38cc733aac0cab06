#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace penstock {

/// What a step of a map computes, in single precision. A condition is a number: 0 is false, everything else is true.
enum class map_operation : std::uint8_t {
  number,  ///< map_step::number
  load,    ///< of input from[0], the real part (from[1] = 0) or the imaginary part (1)
  index,   ///< the element's place along axis from[0] of its frame
  length,  ///< the first extent of a frame of "max N"
  tuned,   ///< number from[0] of operation_arguments::numbers, which its frame has
  add,
  subtract,
  multiply,
  divide,
  negate,
  less,
  less_or_equal,
  equal,
  unequal,
  both,
  either,
  invert,
  select,  ///< from[0] ? from[1] : from[2]
  min,     ///< NaN if either is
  max,
  power,
  atan2,
  hypot,
  abs,
  sqrt,
  exp,
  log,
  log2,
  log10,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  floor,
  ceil,
  round,  ///< halves to even
};
inline constexpr std::size_t map_operations = static_cast<std::size_t>(map_operation::round) + 1;

/// How many earlier steps an operation takes.
[[nodiscard]] int operands_of(map_operation operation) noexcept;

struct map_step {
  map_operation operation = map_operation::number;
  std::array<int, 3> from{-1, -1, -1};  ///< earlier steps, by their places
  double number = 0.0;
};

/// The place of the step that makes a value; of the steps that make both parts of a complex one.
struct map_value {
  int re = -1;
  int im = -1;  ///< −1: the value is real

  [[nodiscard]] bool is_complex() const noexcept { return im >= 0; }
};

/// Makes the steps of a map. What is there already is not made again; arithmetic on numbers is done at once, in double
/// precision.
class map_builder {
 public:
  static constexpr std::size_t most_steps = 4096;

  /// Throws std::length_error beyond most_steps.
  int add(map_operation operation, int first = -1, int second = -1, int third = -1);
  int number(double value);
  map_value load(int input, bool complex);

  /// The value of a step that is a number.
  [[nodiscard]] std::optional<double> number_of(int step) const noexcept;

  /// The steps that `result` needs, in an order in which they can run; `result` is changed to their places.
  [[nodiscard]] std::vector<map_step> finish(map_value& result) const;

 private:
  int keep(const map_step& step);

  std::vector<map_step> steps_;
  std::map<std::tuple<map_operation, std::array<int, 3>, std::uint64_t>, int> known_;
};

/// Adds the steps of an expression such as "log10(max(re*re + im*im, 1e-20))"; docs/operators.md says what it may hold.
/// `names`: what it may call by name; pi, e and j are known unless these hide them. Throws expression_error
/// (size_expression.hpp), which says at which letter.
[[nodiscard]] map_value parse_map_expression(std::string_view text,
                                             const std::map<std::string, map_value, std::less<>>& names,
                                             map_builder& builder);

/// Whether an expression can call something so.
[[nodiscard]] bool is_map_name(std::string_view word) noexcept;

}  // namespace penstock
