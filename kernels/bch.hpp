#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/function_attributes.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// A cyclic code, and what is done with its words.
struct cyclic_code {
  std::uint64_t generator = 1;  ///< the polynomial; bit i is the coefficient of x^i
  std::int32_t degree = 0;      ///< of it: check bits of a word
  std::int32_t length = 1;      ///< bits of a word, without parity
  std::int32_t errors = 1;      ///< most that are corrected
  std::int32_t parity = 0;      ///< 0: none; 1: even; 2: odd

  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int64_t row() const noexcept { return length + (parity != 0 ? 1 : 0); }
};

/// bch: corrects the words of a binary cyclic code, such as BCH, Golay or Hamming codes (R. C. Bose, D. K.
/// Ray-Chaudhuri, Information and Control 3, 1960). A row holds one word or several, one after the other.
///
/// A word is c(x) = Σ bit[i] · x^(n − 1 − i), the first bit the highest, a multiple of the generator where no bit is
/// wrong. The remainder of c(x) by the generator tells the wrong bits, by a table of the remainders of all patterns of
/// at most `errors` bits. With parity another bit follows, so that the number of ones in all n + 1 is even (or odd); it
/// counts as a bit that may be wrong, and a word whose number of wrong bits is then above `errors` is not corrected.
///
/// Input: f32 or f64 [..., W·n] or, with parity, [..., W·(n + 1)]; a bit is 1 where the number is > 0.
/// Output: the input's type, [..., W·(n + 1)] or [..., W·(n + 2)]: of each word the bits, 0 or 1, corrected; then how
/// many were wrong, or −1 where there is no word of the code within `errors` bits. The bits are then as they came.
/// Parameters:
///   generator  integer, required: an odd polynomial of degree 1 to 16
///   length     integer from its degree + 1 to 63, required: n
///   errors     integer from 0, which only checks, to 8, default 1; patterns of so many bits must have remainders of
///              their own
///   parity     "none" (default), "even" or "odd"
///   axis       along_axis.hpp
/// Exact.
struct bch_settings {
  cyclic_code code;
  std::vector<std::uint64_t> patterns;  ///< by remainder: the wrong bits; no_pattern: not known
  std::int64_t words = 1;               ///< of a row
  frame_rows rows;                      ///< of the input
  tensor_spec output;
};

/// No pattern: a word has at most 63 bits.
inline constexpr std::uint64_t no_pattern = ~std::uint64_t{0};

[[nodiscard]] PENSTOCK_HOST_DEVICE inline std::uint64_t remainder_of(const cyclic_code& code,
                                                                     std::uint64_t word) noexcept {
  for (std::int32_t bit = code.length - 1; bit >= code.degree; --bit) {
    if ((word >> bit & 1) != 0) {
      word ^= code.generator << (bit - code.degree);
    }
  }
  return word;
}

[[nodiscard]] PENSTOCK_HOST_DEVICE inline std::int32_t bits_set(std::uint64_t bits) noexcept {
  std::int32_t count = 0;
  for (; bits != 0; bits &= bits - 1) {
    ++count;
  }
  return count;
}

template <class Number>
PENSTOCK_HOST_DEVICE void correct_word(const cyclic_code& code, const std::uint64_t* patterns, const Number* in,
                                       Number* out) noexcept {
  std::uint64_t word = 0;
  for (std::int32_t bit = 0; bit < code.length; ++bit) {
    word = word << 1 | (in[bit] > Number{0} ? 1U : 0U);
  }
  const std::uint64_t pattern = patterns[remainder_of(code, word)];
  bool last = code.parity != 0 && in[code.length] > Number{0};
  std::int32_t wrong = -1;
  if (pattern != no_pattern) {
    wrong = bits_set(pattern);
    const bool odd = ((bits_set(word ^ pattern) + (last ? 1 : 0)) & 1) != 0;
    const bool parity_fails = code.parity != 0 && odd != (code.parity == 2);
    wrong += parity_fails ? 1 : 0;
    if (wrong <= code.errors) {
      word ^= pattern;
      last = last != parity_fails;
    } else {
      wrong = -1;
    }
  }
  for (std::int32_t bit = 0; bit < code.length; ++bit) {
    out[bit] = (word >> (code.length - 1 - bit) & 1) != 0 ? Number{1} : Number{0};
  }
  if (code.parity != 0) {
    out[code.length] = last ? Number{1} : Number{0};
  }
  out[code.row()] = static_cast<Number>(wrong);
}

/// Enters the patterns of `left` more wrong bits below bit `limit`. Throws parameter_error.
inline void enter_patterns(bch_settings& parsed, std::uint64_t pattern, std::int32_t limit, std::int32_t left) {
  std::uint64_t& entry = parsed.patterns[remainder_of(parsed.code, pattern)];
  if (entry != no_pattern) {
    throw parameter_error("errors", "of " + std::to_string(parsed.code.errors) +
                                        " bits can't be told apart by the remainders of this generator");
  }
  entry = pattern;
  for (std::int32_t bit = 0; left > 0 && bit < limit; ++bit) {
    enter_patterns(parsed, pattern | std::uint64_t{1} << bit, bit, left - 1);
  }
}

/// Throws parameter_error.
[[nodiscard]] inline bch_settings parse_bch(const parameters& settings, const tensor_spec& input) {
  require_element_type("bch", input, {element_type::f32, element_type::f64});
  require_fixed_last_axis("bch", input);
  constexpr std::int64_t most_degree = 16;
  bch_settings parsed;
  cyclic_code& code = parsed.code;
  const std::int64_t generator = parse_integer(settings, "generator", 3, (std::int64_t{1} << (most_degree + 1)) - 1);
  if (generator % 2 == 0) {
    throw parameter_error("generator", "must be odd: the polynomial ends in 1");
  }
  code.generator = static_cast<std::uint64_t>(generator);
  code.degree = static_cast<std::int32_t>(std::bit_width(code.generator)) - 1;
  code.errors = static_cast<std::int32_t>(parse_integer(settings, "errors", 0, 8, 1));
  code.length = static_cast<std::int32_t>(parse_integer(settings, "length", code.degree + 1, 63));
  code.parity = static_cast<std::int32_t>(parse_choice(settings, "parity", {"none", "even", "odd"}));
  if (input.shape.back() % code.row() != 0) {
    throw parameter_error(
        "from", "'bch' takes rows of whole words of " + std::to_string(code.row()) + " bits, not " + input.text());
  }
  parsed.words = input.shape.back() / code.row();
  parsed.patterns.assign(std::size_t{1} << code.degree, no_pattern);
  enter_patterns(parsed, 0, code.length, code.errors);
  parsed.rows = frame_rows{input};
  parsed.output = input;
  parsed.output.shape.back() = parsed.words * (code.row() + 1);
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_bch_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_bch_cuda(const operation_request& request);

}  // namespace penstock
