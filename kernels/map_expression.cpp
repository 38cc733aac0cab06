#include "kernels/map_expression.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/configuration_error.hpp"
#include "kernels/size_expression.hpp"

namespace penstock {
namespace {

using enum map_operation;

struct function_facts {
  std::string_view name;
  map_operation operation;
};

/// Functions of one real number.
constexpr std::array<function_facts, 14> real_functions{{{"acos", acos},
                                                         {"asin", asin},
                                                         {"atan", atan},
                                                         {"ceil", ceil},
                                                         {"cos", cos},
                                                         {"cosh", cosh},
                                                         {"floor", floor},
                                                         {"log10", log10},
                                                         {"log2", log2},
                                                         {"round", round},
                                                         {"sin", sin},
                                                         {"sinh", sinh},
                                                         {"tan", tan},
                                                         {"tanh", tanh}}};

/// The others.
constexpr std::array<std::string_view, 15> further_functions{
    "abs", "arg", "atan2", "clamp", "complex", "conj", "exp", "im", "isnan", "log", "max", "min", "pow", "re", "sqrt"};

bool is_letter(char letter) noexcept {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}

bool is_digit(char letter) noexcept {
  return letter >= '0' && letter <= '9';
}

/// Of numbers alone; nothing for what is better left to the steps.
std::optional<double> folded(map_operation operation, double left, double right) noexcept {
  double value = 0.0;
  switch (operation) {
    case add:
      value = left + right;
      break;
    case subtract:
      value = left - right;
      break;
    case multiply:
      value = left * right;
      break;
    case divide:
      value = left / right;
      break;
    case power:
      value = std::pow(left, right);
      break;
    case negate:
      value = -left;
      break;
    default:
      return std::nullopt;
  }
  return std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max()) ? std::optional(value)
                                                                                   : std::nullopt;
}

}  // namespace

int operands_of(map_operation operation) noexcept {
  switch (operation) {
    case number:
    case load:
    case index:
    case length:
    case tuned:
      return 0;
    case select:
      return 3;
    case add:
    case subtract:
    case multiply:
    case divide:
    case less:
    case less_or_equal:
    case equal:
    case unequal:
    case both:
    case either:
    case min:
    case max:
    case power:
    case atan2:
    case hypot:
      return 2;
    default:
      return 1;
  }
}

int map_builder::keep(const map_step& step) {
  // By its bits: −0 is not 0.
  const auto [place, is_new] = known_.try_emplace(
      {step.operation, step.from, std::bit_cast<std::uint64_t>(step.number)}, static_cast<int>(steps_.size()));
  if (is_new) {
    if (steps_.size() == most_steps) {
      throw std::length_error("has more than " + std::to_string(most_steps) + " operations");
    }
    steps_.push_back(step);
  }
  return place->second;
}

int map_builder::number(double value) {
  return keep({.operation = map_operation::number, .number = value});
}

int map_builder::add(map_operation operation, int first, int second, int third) {
  const int operands = operands_of(operation);
  const std::optional<double> left = operands == 0 ? std::nullopt : number_of(first);
  const std::optional<double> right = operands == 2 ? number_of(second) : left;
  if (left && right) {
    if (const std::optional<double> value = folded(operation, *left, *right)) {
      return number(*value);
    }
  }
  if (operation == map_operation::multiply && first == second) {
    const map_step same = steps_[static_cast<std::size_t>(first)];
    if (same.operation == map_operation::hypot) {  // the square needs no root
      const int re = add(map_operation::multiply, same.from[0], same.from[0]);
      const int im = add(map_operation::multiply, same.from[1], same.from[1]);
      return add(map_operation::add, re, im);
    }
  }
  return keep({.operation = operation, .from = {first, second, third}});
}

map_value map_builder::load(int input, bool complex) {
  const int real = keep({.operation = map_operation::load, .from = {input, 0, -1}});
  return {real, complex ? keep({.operation = map_operation::load, .from = {input, 1, -1}}) : -1};
}

std::optional<double> map_builder::number_of(int step) const noexcept {
  const map_step& found = steps_[static_cast<std::size_t>(step)];
  return found.operation == map_operation::number ? std::optional(found.number) : std::nullopt;
}

std::vector<map_step> map_builder::finish(map_value& result) const {
  std::vector<bool> needed(steps_.size(), false);
  for (const int each : {result.re, result.im}) {
    if (each >= 0) {
      needed[static_cast<std::size_t>(each)] = true;
    }
  }
  for (std::size_t step = steps_.size(); step-- > 0;) {
    for (int operand = 0; needed[step] && operand < operands_of(steps_[step].operation); ++operand) {
      needed[static_cast<std::size_t>(steps_[step].from[static_cast<std::size_t>(operand)])] = true;
    }
  }
  std::vector<map_step> kept;
  std::vector<int> places(steps_.size(), -1);
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    if (!needed[step]) {
      continue;
    }
    map_step moved = steps_[step];
    for (int operand = 0; operand < operands_of(moved.operation); ++operand) {
      int& from = moved.from[static_cast<std::size_t>(operand)];
      from = places[static_cast<std::size_t>(from)];
    }
    places[step] = static_cast<int>(kept.size());
    kept.push_back(moved);
  }
  for (int* const each : {&result.re, &result.im}) {
    *each = *each < 0 ? -1 : places[static_cast<std::size_t>(*each)];
  }
  return kept;
}

namespace {

/// Recursive descent. Complex values become steps on their parts right away.
class map_parser {
 public:
  using names = std::map<std::string, map_value, std::less<>>;

  map_parser(std::string_view text, const names& known, map_builder& builder)
      : text_(text), names_(known), builder_(builder) {}

  [[nodiscard]] map_value parse() {
    try {
      const map_value value = conditional();
      skip_blanks();
      if (at_ != text_.size()) {
        fail("has '" + std::string(1, text_[at_]) + "' where it could end");
      }
      return value;
    } catch (const std::length_error& error) {
      fail(error.what());
    }
  }

 private:
  static constexpr int most_nesting = 100;
  static constexpr double most_whole_power = 64;

  /// An operand and where it begins.
  struct operand {
    map_value value;
    std::size_t begin = 0;
  };

  [[noreturn]] void fail(const std::string& message) const { fail(message, at_); }
  [[noreturn]] void fail(const std::string& message, std::size_t at) const {
    throw expression_error("\"" + std::string(text_) + "\" " + message + ", at letter " + std::to_string(at + 1));
  }

  void skip_blanks() noexcept {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
  }

  [[nodiscard]] bool take(std::string_view word) noexcept {
    skip_blanks();
    const bool there = text_.substr(at_).starts_with(word);
    at_ += there ? word.size() : 0;
    return there;
  }

  void expect(std::string_view word) {
    if (!take(word)) {
      fail("lacks '" + std::string(word) + "'");
    }
  }

  int add(map_operation operation, int first, int second = -1, int third = -1) {
    return builder_.add(operation, first, second, third);
  }

  int real_number(double value) { return builder_.number(value); }

  [[nodiscard]] int real(const operand& given, const std::string& taker) const {
    if (given.value.is_complex()) {
      fail("has a complex value where " + taker + " takes a real one", given.begin);
    }
    return given.value.re;
  }

  [[nodiscard]] operand marked(map_value (map_parser::*read)()) {
    skip_blanks();
    const std::size_t begin = at_;
    return {(this->*read)(), begin};
  }

  // From the loosest to the tightest.

  map_value conditional() {
    if (++nesting_ > most_nesting) {
      fail("is nested too deeply");
    }
    const operand condition = marked(&map_parser::any);
    map_value value = condition.value;
    if (take("?")) {
      const int chosen = real(condition, "'?'");
      const map_value left = conditional();
      expect(":");
      const map_value right = conditional();
      value.re = add(select, chosen, left.re, right.re);
      value.im = -1;
      if (left.is_complex() || right.is_complex()) {
        value.im = add(select, chosen, imaginary(left), imaginary(right));
      }
    }
    --nesting_;
    return value;
  }

  map_value any() {
    operand left = marked(&map_parser::all);
    while (take("||")) {
      const operand right = marked(&map_parser::all);
      left.value = {add(either, real(left, "'||'"), real(right, "'||'"))};
    }
    return left.value;
  }

  map_value all() {
    operand left = marked(&map_parser::comparison);
    while (take("&&")) {
      const operand right = marked(&map_parser::comparison);
      left.value = {add(both, real(left, "'&&'"), real(right, "'&&'"))};
    }
    return left.value;
  }

  /// The operator that stands here, which is taken.
  std::string_view comparison_sign() {
    for (const std::string_view sign : {"<=", ">=", "==", "!=", "<", ">"}) {
      if (take(sign)) {
        return sign;
      }
    }
    return "";
  }

  map_value comparison() {
    const operand left = marked(&map_parser::sum);
    const std::string_view sign = comparison_sign();
    if (sign.empty()) {
      return left.value;
    }
    const operand right = marked(&map_parser::sum);
    const std::string taker = "'" + std::string(sign) + "'";
    const int one = real(left, taker);
    const int other = real(right, taker);
    if (const std::size_t at = at_; !comparison_sign().empty()) {
      fail("compares twice: write a < b && b < c", at);
    }
    if (sign == "==" || sign == "!=") {
      return {add(sign == "==" ? equal : unequal, one, other)};
    }
    const map_operation operation = sign.size() == 1 ? less : less_or_equal;
    return {sign.front() == '<' ? add(operation, one, other) : add(operation, other, one)};
  }

  map_value sum() {
    map_value left = product();
    for (;;) {
      const bool plus = take("+");
      if (!plus && !take("-")) {
        return left;
      }
      const map_value right = product();
      const map_operation operation = plus ? map_operation::add : subtract;
      const bool complex = left.is_complex() || right.is_complex();
      left = {add(operation, left.re, right.re), !complex              ? -1
                                                 : !right.is_complex() ? left.im
                                                 : left.is_complex()   ? add(operation, left.im, right.im)
                                                 : plus                ? right.im
                                                                       : add(negate, right.im)};
    }
  }

  map_value product() {
    map_value left = unary();
    for (;;) {
      if (take("*")) {
        left = times(left, unary());
      } else if (take("/")) {
        left = over(left, unary());
      } else {
        return left;
      }
    }
  }

  map_value unary() {
    if (++nesting_ > most_nesting) {
      fail("is nested too deeply");
    }
    map_value value;
    skip_blanks();
    if (take("-")) {
      const map_value of = unary();
      value = {add(negate, of.re), of.is_complex() ? add(negate, of.im) : -1};
    } else if (take("+")) {
      value = unary();
    } else if (!text_.substr(at_).starts_with("!=") && take("!")) {
      value = {add(invert, real(marked(&map_parser::unary), "'!'"))};
    } else {
      value = raised();
    }
    --nesting_;
    return value;
  }

  map_value raised() {
    const map_value base = primary();
    if (!take("^")) {
      return base;
    }
    return to_the_power(base, marked(&map_parser::unary));
  }

  map_value primary() {
    skip_blanks();
    if (take("(")) {
      const map_value value = conditional();
      expect(")");
      return value;
    }
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.')) {
      return {literal()};
    }
    if (at_ < text_.size() && is_letter(text_[at_])) {
      return name();
    }
    fail(at_ == text_.size() ? "ends where a number is wanted" : "lacks a number");
  }

  int literal() {
    double value = 0.0;
    const auto [rest, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{} || std::abs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
      fail(error == std::errc::invalid_argument ? "lacks a number" : "has a number beyond f32's range");
    }
    at_ = static_cast<std::size_t>(rest - text_.data());
    return real_number(value);
  }

  map_value name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (take("(")) {
      return call(word, begin);
    }
    const auto found = names_.find(word);
    if (found != names_.end()) {
      return found->second;
    }
    if (word == "pi" || word == "e") {
      return {real_number(word == "pi" ? std::numbers::pi : std::numbers::e)};
    }
    if (word == "j") {
      return {real_number(0.0), real_number(1.0)};
    }
    std::vector<std::string_view> known;
    for (const auto& [each, value] : names_) {
      known.emplace_back(each);
    }
    known.insert(known.end(), {"pi", "e", "j"});
    fail("has an unknown name '" + std::string(word) + "'" + suggestion(word, known), begin);
  }

  std::vector<operand> arguments() {
    std::vector<operand> all;
    if (take(")")) {
      return all;
    }
    do {
      all.push_back(marked(&map_parser::conditional));
    } while (take(","));
    expect(")");
    return all;
  }

  map_value call(std::string_view function, std::size_t begin) {
    const auto* const plain = std::find_if(real_functions.begin(), real_functions.end(),
                                           [function](const function_facts& each) { return each.name == function; });
    const bool is_plain = plain != real_functions.end();
    if (!is_plain &&
        std::find(further_functions.begin(), further_functions.end(), function) == further_functions.end()) {
      std::vector<std::string_view> known(further_functions.begin(), further_functions.end());
      for (const function_facts& each : real_functions) {
        known.push_back(each.name);
      }
      fail("has an unknown function '" + std::string(function) + "'" + suggestion(function, known), begin);
    }
    const std::vector<operand> given = arguments();
    const std::string taker = "'" + std::string(function) + "'";
    const auto require = [&](std::size_t count, const std::string& words) {
      if (given.size() != count) {
        fail("gives " + taker + " " + std::to_string(given.size()) + " arguments; it takes " + words, begin);
      }
    };
    if (function == "min" || function == "max") {
      if (given.size() < 2) {
        fail("gives " + taker + " " + std::to_string(given.size()) + " arguments; it takes two or more", begin);
      }
      int value = real(given.front(), taker);
      for (std::size_t at = 1; at < given.size(); ++at) {
        value = add(function == "min" ? min : max, value, real(given[at], taker));
      }
      return {value};
    }
    if (function == "clamp") {
      require(3, "a value, the least and the most");
      const int raised_to = add(max, real(given[0], taker), real(given[1], taker));
      return {add(min, raised_to, real(given[2], taker))};
    }
    if (function == "pow" || function == "atan2" || function == "complex") {
      require(2, "two");
      if (function == "pow") {
        return to_the_power(given[0].value, given[1]);
      }
      const int first = real(given[0], taker);
      const int second = real(given[1], taker);
      return function == "complex" ? map_value{first, second} : map_value{add(atan2, first, second)};
    }
    require(1, "one");
    return is_plain ? map_value{add(plain->operation, real(given[0], taker))}
                    : function_of_complex(function, given[0].value);
  }

  /// Functions that take real and complex values.
  map_value function_of_complex(std::string_view function, const map_value& of) {
    const bool complex = of.is_complex();
    if (function == "re") {
      return {of.re};
    }
    if (function == "im") {
      return {imaginary(of)};
    }
    if (function == "conj") {
      return {of.re, complex ? add(negate, of.im) : -1};
    }
    if (function == "abs") {
      return {complex ? add(hypot, of.re, of.im) : add(abs, of.re)};
    }
    if (function == "arg") {
      return {add(atan2, imaginary(of), of.re)};
    }
    if (function == "isnan") {
      const int found = add(unequal, of.re, of.re);
      return {complex ? add(either, found, add(unequal, of.im, of.im)) : found};
    }
    if (!complex) {
      return {add(function == "exp" ? exp : function == "log" ? log : sqrt, of.re)};
    }
    if (function == "log") {
      return {add(log, add(hypot, of.re, of.im)), add(atan2, of.im, of.re)};
    }
    if (function == "exp") {
      const int size = add(exp, of.re);
      return {add(multiply, size, add(cos, of.im)), add(multiply, size, add(sin, of.im))};
    }
    return root(of);
  }

  /// The square root in the right half plane, without cancellation.
  map_value root(const map_value& of) {
    const int half = real_number(0.5);
    const int zero = real_number(0.0);
    const int size = add(sqrt, add(map_operation::add, add(multiply, half, add(hypot, of.re, of.im)),
                                   add(multiply, half, add(abs, of.re))));
    const int other =
        add(select, add(equal, size, zero), zero, add(divide, add(multiply, half, add(abs, of.im)), size));
    const int right = add(less_or_equal, zero, of.re);
    const int upward = add(select, right, other, size);
    return {add(select, right, size, other), add(select, add(less, of.im, zero), add(negate, upward), upward)};
  }

  int imaginary(const map_value& of) { return of.is_complex() ? of.im : real_number(0.0); }

  map_value times(const map_value& left, const map_value& right) {
    if (!left.is_complex() || !right.is_complex()) {
      const map_value& wide = left.is_complex() ? left : right;
      const map_value& plain = left.is_complex() ? right : left;
      return {add(multiply, left.re, right.re), wide.is_complex() ? add(multiply, wide.im, plain.re) : -1};
    }
    return {add(subtract, add(multiply, left.re, right.re), add(multiply, left.im, right.im)),
            add(map_operation::add, add(multiply, left.re, right.im), add(multiply, left.im, right.re))};
  }

  /// A complex divisor is scaled by its larger part (R. L. Smith, Algorithm 116, CACM 5, 1962).
  map_value over(const map_value& left, const map_value& right) {
    if (!right.is_complex()) {
      return {add(divide, left.re, right.re), left.is_complex() ? add(divide, left.im, right.re) : -1};
    }
    const int lies_flat = add(less_or_equal, add(abs, right.im), add(abs, right.re));
    const auto chosen = [&](int one, int other) { return add(select, lies_flat, one, other); };
    const int left_im = imaginary(left);
    const int larger = chosen(right.re, right.im);
    const int smaller = chosen(right.im, right.re);
    const int ratio = add(divide, smaller, larger);
    const int divisor = add(map_operation::add, larger, add(multiply, smaller, ratio));
    const int along = chosen(left.re, left_im);
    const int across = chosen(left_im, left.re);
    const int re = add(divide, add(map_operation::add, along, add(multiply, across, ratio)), divisor);
    const int im = add(divide, add(subtract, across, add(multiply, along, ratio)), divisor);
    return {re, chosen(im, add(negate, im))};
  }

  map_value to_the_power(const map_value& base, const operand& exponent) {
    const std::optional<double> fixed =
        exponent.value.is_complex() ? std::nullopt : builder_.number_of(exponent.value.re);
    const bool whole = fixed && *fixed == std::trunc(*fixed);
    const double most = base.is_complex() ? most_whole_power : 4;
    if (whole && std::abs(*fixed) <= most && (base.is_complex() || !builder_.number_of(base.re))) {
      const auto times_itself = static_cast<int>(std::abs(*fixed));
      const map_value value = multiplied(base, times_itself);
      return *fixed < 0 ? over({real_number(1.0)}, value) : value;
    }
    if (base.is_complex()) {
      fail("raises a complex value to a power that is not a whole number from -64 to 64; exp(b * log(a)) does",
           exponent.begin);
    }
    return {add(power, base.re, real(exponent, "'^'"))};
  }

  map_value multiplied(const map_value& base, int count) {
    if (count == 0) {
      return {real_number(1.0), base.is_complex() ? real_number(0.0) : -1};
    }
    if (count == 1) {
      return base;
    }
    const map_value half = multiplied(base, count / 2);
    const map_value even = times(half, half);
    return count % 2 == 0 ? even : times(even, base);
  }

  std::string_view text_;
  const names& names_;
  map_builder& builder_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

map_value parse_map_expression(std::string_view text, const std::map<std::string, map_value, std::less<>>& names,
                               map_builder& builder) {
  return map_parser(text, names, builder).parse();
}

bool is_map_name(std::string_view word) noexcept {
  return !word.empty() && is_letter(word.front()) &&
         std::all_of(word.begin(), word.end(), [](char each) { return is_letter(each) || is_digit(each); });
}

}  // namespace penstock
