#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// What is wrong with an expression, and where.
class expression_error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// An expression over whole numbers, such as "ceil(n0 / 256)" or "4 * max(n0, 64)": the size of a grid, of a block, of
/// memory, of a dimension.
///
/// Operators: + − * / % and parentheses; functions: min(a, b), max(a, b), ceil(a / b). A division rounds down, within
/// ceil up. A result beyond 64 bits is the nearest 64-bit number; a division by zero gives the largest.
class size_expression {
 public:
  size_expression() = default;
  /// `names`: the variables, at most 256 of them. Throws expression_error.
  size_expression(std::string_view text, std::span<const std::string_view> names);
  /// A number.
  explicit size_expression(std::int64_t number) : code_{{operation::number, number}} {}

  /// `values`: of the variables, in the order of `names`. Never allocates.
  [[nodiscard]] std::int64_t value(std::span<const std::int64_t> values) const noexcept;
  /// Whether the value depends on this variable.
  [[nodiscard]] bool uses(std::size_t variable) const noexcept;

 private:
  friend class expression_parser;
  enum class operation : std::uint8_t {
    number,
    variable,
    add,
    subtract,
    multiply,
    divide,
    divide_up,
    modulo,
    min,
    max
  };
  struct instruction {
    operation code;
    std::int64_t operand = 0;
  };
  static constexpr std::size_t most_depth = 32;  ///< values on the stack

  std::vector<instruction> code_{{operation::number, 0}};  // postfix
};

}  // namespace penstock
