#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

using bits = std::vector<int>;

struct code_case {
  std::int64_t generator;
  std::int64_t length;
  std::int64_t errors;
  const char* parity;
};

/// The word of a message, by long division of its bits; the parity bit behind it.
bits encoded(const bits& message, const code_case& code) {
  bits divisor;
  for (std::int64_t rest = code.generator; rest > 0; rest /= 2) {
    divisor.insert(divisor.begin(), static_cast<int>(rest % 2));
  }
  bits rest = message;
  rest.resize(static_cast<std::size_t>(code.length), 0);
  for (std::size_t at = 0; at < message.size(); ++at) {
    for (std::size_t each = 0; rest[at] != 0 && each < divisor.size(); ++each) {
      rest[at + each] ^= each == 0 ? 0 : divisor[each];
    }
  }
  bits word = message;
  word.insert(word.end(), rest.begin() + static_cast<std::ptrdiff_t>(message.size()), rest.end());
  int ones = 0;
  for (const int bit : word) {
    ones += bit;
  }
  if (std::string(code.parity) != "none") {
    word.push_back((ones + (std::string(code.parity) == "odd" ? 1 : 0)) % 2);
  }
  return word;
}

class bch_operation : public operation_test {
 protected:
  static operation_case make(const code_case& code, element_type type, std::int64_t rows, std::int64_t words,
                             std::int64_t word_bits) {
    return {.op = "bch",
            .settings = settings_of({{"generator", code.generator},
                                     {"length", code.length},
                                     {"errors", code.errors},
                                     {"parity", std::string(code.parity)}}),
            .input = {.type = type, .shape = {rows, words * word_bits}},
            .extent = {.frames = 1}};
  }

  bits message_of(std::size_t count) {
    bits message(count);
    for (int& bit : message) {
      bit = random_.coin() ? 1 : 0;
    }
    return message;
  }

  /// `count` different bits of the word turned over.
  bits spoilt(bits word, std::int64_t count) {
    std::vector<bool> done(word.size());
    while (count > 0) {
      const auto at = static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(word.size()) - 1));
      if (!done[at]) {
        done[at] = true;
        word[at] ^= 1;
        --count;
      }
    }
    return word;
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(bch_operation);

// The code of pagers, (15, 7), (63, 45), Golay's, and Hamming's.
constexpr code_case codes[] = {{0x769, 31, 2, "even"}, {0x769, 31, 2, "none"}, {0x1D1, 15, 2, "odd"},
                               {0xC75, 23, 3, "none"}, {0xB, 7, 1, "even"},    {0x1539, 63, 2, "none"}};

TEST_P(bch_operation, CorrectsAsManyBitsAsItSaysAndTellsHowMany) {
  SCOPED_TRACE(random_.trace());
  for (const code_case& code : codes) {
    std::int64_t degree = -1;
    for (std::int64_t rest = code.generator; rest > 0; rest /= 2) {
      ++degree;
    }
    const std::int64_t rows = 67;
    const std::int64_t words = 3;
    std::vector<float> input;
    std::vector<float> expected;
    std::int64_t word_bits = 0;
    for (std::int64_t each = 0; each < rows * words; ++each) {
      const bits word = encoded(message_of(static_cast<std::size_t>(code.length - degree)), code);
      word_bits = static_cast<std::int64_t>(word.size());
      const std::int64_t wrong = random_.integer(0, code.errors);
      for (const int bit : spoilt(word, wrong)) {
        input.push_back(bit != 0 ? 0.7F : -0.7F);
      }
      expected.insert(expected.end(), word.begin(), word.end());
      expected.push_back(static_cast<float>(wrong));
    }
    EXPECT_EQ(run<float>(make(code, element_type::f32, rows, words, word_bits), input), expected) << code.generator;
    const std::vector<double> wide(input.begin(), input.end());
    EXPECT_EQ(run<double>(make(code, element_type::f64, rows, words, word_bits), wide),
              std::vector<double>(expected.begin(), expected.end()))
        << code.generator;
  }
}

TEST_P(bch_operation, LeavesAWordAsItIsThatHasOneMoreWrongBit) {
  SCOPED_TRACE(random_.trace());
  const code_case code{0x769, 31, 2, "even"};
  std::vector<float> input;
  std::vector<float> expected;
  for (int each = 0; each < 200; ++each) {
    const bits word = spoilt(encoded(message_of(21), code), 3);  // its distance is 6: never taken for another word
    input.insert(input.end(), word.begin(), word.end());
    expected.insert(expected.end(), word.begin(), word.end());
    expected.push_back(-1.0F);
  }
  EXPECT_EQ(run<float>(make(code, element_type::f32, 200, 1, 32), input), expected);
}

TEST(Bch, RefusesWhatItCannotCorrect) {
  const tensor_spec input{.type = element_type::f32, .shape = {16, 32}};
  const auto with = [](const char* key, parameters::value value) {
    parameters settings = settings_of({{"generator", std::int64_t{0x769}},
                                       {"length", std::int64_t{31}},
                                       {"errors", std::int64_t{2}},
                                       {"parity", std::string("even")}});
    settings.set(key, std::move(value));
    return settings;
  };
  expect_refused("bch", {}, {input}, "generator", "missing");
  expect_refused("bch", with("generator", std::int64_t{0x768}), {input}, "generator", "must be odd");
  expect_refused("bch", with("generator", std::int64_t{1} << 17), {input}, "generator", "131071");
  expect_refused("bch", with("length", std::int64_t{64}), {input}, "length", "63");
  expect_refused("bch", with("errors", std::int64_t{3}), {input}, "errors", "can't be told apart");
  expect_refused("bch", with("errors", std::int64_t{9}), {input}, "errors", "8");
  expect_refused("bch", with("parity", std::string("some")), {input}, "parity", R"("none", "even" or "odd")");
  expect_refused("bch", with("parity", std::string("none")), {input}, "from", "whole words of 31 bits");
  expect_refused("bch", with("errors", std::int64_t{2}), {{.type = element_type::i32, .shape = {32}}}, "from",
                 "takes f32 or f64");
}

}  // namespace
}  // namespace penstock
