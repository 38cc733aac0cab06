#include "kernels/size_expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace penstock {
namespace {

__extension__ using wide = __int128;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();

std::int64_t nearest(wide value) noexcept {
  return static_cast<std::int64_t>(std::clamp<wide>(value, smallest, largest));
}

std::int64_t divide(std::int64_t value, std::int64_t divisor, bool up) noexcept {
  if (divisor == 0) {
    return largest;
  }
  const wide quotient = static_cast<wide>(value) / divisor;
  const wide rest = static_cast<wide>(value) % divisor;
  const bool positive = (rest < 0) == (divisor < 0);
  return nearest(quotient + (rest == 0 ? 0 : up && positive ? 1 : !up && !positive ? -1 : 0));
}

bool is_letter(char letter) noexcept {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}

bool is_digit(char letter) noexcept {
  return letter >= '0' && letter <= '9';
}

}  // namespace

/// Recursive descent; emits postfix code and follows how deep its stack gets.
class expression_parser {
 public:
  using operation = size_expression::operation;

  expression_parser(std::string_view text, std::span<const std::string_view> names) : text_(text), names_(names) {}

  [[nodiscard]] std::vector<size_expression::instruction> parse() {
    sum(/*up=*/false);
    skip_blanks();
    if (at_ != text_.size()) {
      fail("has '" + std::string(1, text_[at_]) + "' where it could end");
    }
    return std::move(code_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw expression_error("\"" + std::string(text_) + "\" " + message + ", at letter " + std::to_string(at_ + 1));
  }

  void skip_blanks() noexcept {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }

  [[nodiscard]] bool take(char letter) noexcept {
    skip_blanks();
    const bool there = at_ < text_.size() && text_[at_] == letter;
    at_ += there ? 1 : 0;
    return there;
  }

  void expect(char letter) {
    if (!take(letter)) {
      fail(std::string("lacks '") + letter + "'");
    }
  }

  void emit(operation code, std::int64_t operand = 0) {
    const bool pushes = code == operation::number || code == operation::variable;
    depth_ = pushes ? depth_ + 1 : depth_ - 1;
    if (depth_ > size_expression::most_depth) {
      fail("is nested too deeply");
    }
    code_.push_back({code, operand});
  }

  void sum(bool up) {
    product(up);
    for (;;) {
      if (take('+')) {
        product(up);
        emit(operation::add);
      } else if (take('-')) {
        product(up);
        emit(operation::subtract);
      } else {
        return;
      }
    }
  }

  void product(bool up) {
    factor(up);
    for (;;) {
      if (take('*')) {
        factor(up);
        emit(operation::multiply);
      } else if (take('/')) {
        factor(up);
        emit(up ? operation::divide_up : operation::divide);
      } else if (take('%')) {
        factor(up);
        emit(operation::modulo);
      } else {
        return;
      }
    }
  }

  void factor(bool up) {
    if (++nesting_ > size_expression::most_depth) {
      fail("is nested too deeply");
    }
    skip_blanks();
    if (take('(')) {
      sum(up);
      expect(')');
    } else if (take('-')) {
      emit(operation::number, 0);
      factor(up);
      emit(operation::subtract);
    } else if (at_ < text_.size() && is_digit(text_[at_])) {
      number();
    } else if (at_ < text_.size() && is_letter(text_[at_])) {
      name(up);
    } else {
      fail(at_ == text_.size() ? "ends where a number is wanted" : "lacks a number");
    }
    --nesting_;
  }

  void number() {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{}) {
      fail("has a number beyond 64 bits");
    }
    at_ = static_cast<std::size_t>(rest - text_.data());
    emit(operation::number, value);
  }

  void name(bool up) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (take('(')) {
      call(word, begin, up);
      return;
    }
    const auto found = std::find(names_.begin(), names_.end(), word);
    if (found == names_.end()) {
      at_ = begin;
      std::string known;
      for (const std::string_view each : names_) {
        known += (known.empty() ? "" : ", ") + std::string(each);
      }
      fail("has an unknown name '" + std::string(word) + "' (known: " + known + ")");
    }
    emit(operation::variable, found - names_.begin());
  }

  void call(std::string_view function, std::size_t begin, bool up) {
    if (function == "ceil") {
      sum(/*up=*/true);
    } else if (function == "min" || function == "max") {
      sum(up);
      expect(',');
      sum(up);
      emit(function == "min" ? operation::min : operation::max);
    } else {
      at_ = begin;
      fail("has an unknown function '" + std::string(function) + "' (known: ceil, min, max)");
    }
    expect(')');
  }

  std::string_view text_;
  std::span<const std::string_view> names_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::size_t nesting_ = 0;
  std::vector<size_expression::instruction> code_;
};

size_expression::size_expression(std::string_view text, std::span<const std::string_view> names)
    : code_(expression_parser(text, names).parse()) {}

std::int64_t size_expression::value(std::span<const std::int64_t> values) const noexcept {
  std::array<std::int64_t, most_depth + 1> stack{};
  std::size_t top = 0;
  for (const instruction& each : code_) {
    if (each.code == operation::number) {
      stack[top++] = each.operand;
      continue;
    }
    if (each.code == operation::variable) {
      stack[top++] = values[static_cast<std::size_t>(each.operand)];
      continue;
    }
    const std::int64_t right = stack[--top];
    std::int64_t& left = stack[top - 1];
    switch (each.code) {
      case operation::add:
        left = nearest(static_cast<wide>(left) + right);
        break;
      case operation::subtract:
        left = nearest(static_cast<wide>(left) - right);
        break;
      case operation::multiply:
        left = nearest(static_cast<wide>(left) * right);
        break;
      case operation::divide:
        left = divide(left, right, /*up=*/false);
        break;
      case operation::divide_up:
        left = divide(left, right, /*up=*/true);
        break;
      case operation::modulo:
        left = right == 0 ? largest : nearest(static_cast<wide>(left) % right);
        break;
      case operation::min:
        left = std::min(left, right);
        break;
      default:
        left = std::max(left, right);
    }
  }
  return stack[0];
}

bool size_expression::uses(std::size_t variable) const noexcept {
  return std::any_of(code_.begin(), code_.end(), [variable](const instruction& each) {
    return each.code == operation::variable && static_cast<std::size_t>(each.operand) == variable;
  });
}

}  // namespace penstock
