#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class unpack_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(unpack_operation);

operation_case unpack_of(const std::string& format, bool big, tensor_spec input) {
  operation_case setup{.op = "unpack", .settings = {}, .input = std::move(input)};
  setup.settings.set("format", format);
  setup.settings.set("order", std::string{big ? "big" : "little"});
  return setup;
}

/// Each number by its places: the byte of place p counts 256^p.
std::vector<std::int64_t> numbers_of(const std::vector<std::uint8_t>& bytes, std::size_t size, bool big,
                                     bool is_signed) {
  std::vector<std::int64_t> numbers;
  for (std::size_t first = 0; first < bytes.size(); first += size) {
    std::int64_t number = 0;
    for (std::size_t place = size; place > 0; --place) {
      number = number * 256 + bytes[big ? first + size - place : first + place - 1];
    }
    const std::int64_t all = std::int64_t{1} << (8 * size);
    numbers.push_back(is_signed && number >= all / 2 ? number - all : number);
  }
  return numbers;
}

template <class Number>
std::vector<std::int64_t> wide(const std::vector<Number>& numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST_P(unpack_operation, GivesIntegersOfEitherOrderExactly) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const bool big : {false, true}) {
    for (const std::int64_t length : {1, 3, 257, 10007}) {
      const auto case_of = [&](const char* format, std::int64_t size) {
        operation_case setup =
            unpack_of(format, big, {.type = element_type::u8, .shape = {5, length * size}, .variable = true});
        setup.extent = {.frames = 2, .leading = 3};
        setup.spare_frames = 1;
        return setup;
      };
      const auto bytes = [&](std::int64_t size) {
        return random.integers<std::uint8_t>(static_cast<std::size_t>(2 * 3 * length * size));
      };
      const auto three = bytes(3);
      EXPECT_EQ(wide(run<std::int32_t>(case_of("i24", 3), three)), numbers_of(three, 3, big, true));
      EXPECT_EQ(wide(run<std::int32_t>(case_of("u24", 3), three)), numbers_of(three, 3, big, false));
      const auto two = bytes(2);
      EXPECT_EQ(wide(run<std::int16_t>(case_of("i16", 2), two)), numbers_of(two, 2, big, true));
      EXPECT_EQ(wide(run<std::uint16_t>(case_of("u16", 2), two)), numbers_of(two, 2, big, false));
      const auto four = bytes(4);
      EXPECT_EQ(wide(run<std::int32_t>(case_of("i32", 4), four)), numbers_of(four, 4, big, true));
      EXPECT_EQ(wide(run<std::int32_t>(case_of("f32", 4), four)), numbers_of(four, 4, big, true)) << "the bits";
    }
  }
}

TEST_P(unpack_operation, GivesFloatsAsTheyAre) {
  random_input random;
  SCOPED_TRACE(random.trace());
  std::vector<double> numbers(1001);
  for (double& each : numbers) {
    each = random.real(-1e300, 1e300);
  }
  std::vector<std::uint8_t> bytes(8 * numbers.size());
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  EXPECT_EQ(run<double>(unpack_of("f64", false, {.type = element_type::u8, .shape = {8008}}), bytes), numbers);
  for (std::size_t first = 0; first < bytes.size(); first += 8) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(first),
                 bytes.begin() + static_cast<std::ptrdiff_t>(first) + 8);
  }
  EXPECT_EQ(run<double>(unpack_of("f64", true, {.type = element_type::u8, .shape = {8008}}), bytes), numbers);
}

TEST(Unpack, RefusesWhatItCannotDo) {
  const auto with = [](const char* format) {
    parameters settings;
    settings.set("format", std::string{format});
    return settings;
  };
  const tensor_spec input{.type = element_type::u8, .shape = {8}};
  expect_refused("unpack", {}, {input}, "format", "is missing");
  expect_refused("unpack", with("i12"), {input}, "format", "\"i24\"");
  expect_refused("unpack", with("i24"), {input}, "format", "3 bytes a number, which do not divide the 8 of u8[8]");
  expect_refused("unpack", with("i16"), {{.type = element_type::u8, .shape = {8}, .variable = true}}, "from",
                 "fixed last axis");
  expect_refused("unpack", with("i16"), {{.type = element_type::i8, .shape = {8}}}, "from", "takes u8");
}

}  // namespace
}  // namespace penstock
