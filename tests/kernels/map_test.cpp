#include "kernels/map.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <numbers>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/kernels/operator_sample.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

parameters map_settings_of(const std::string& expression, const entries& further = {},
                           const std::vector<std::string>& from = {"input"}) {
  parameters settings = settings_of(further);
  settings.set("expr", expression);
  return map_with_names(settings, from);
}

std::shared_ptr<const parameters> table(const entries& given) {
  return std::make_shared<const parameters>(settings_of(given));
}

/// Numbers as the bytes of an input.
template <class Number>
std::vector<std::byte> bytes_of(const std::vector<Number>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

/// One run of a map over a batch.
struct map_run {
  parameters settings;
  std::vector<tensor_spec> specs;
  std::vector<std::vector<std::byte>> inputs;
  batch_extent extent;
  std::vector<double> tuned{};  ///< operation_arguments::numbers

  [[nodiscard]] std::vector<std::byte> bytes() const {
    const operation_request request{.settings = settings, .inputs = specs, .max_frames = extent.frames};
    const std::unique_ptr<operation> made = make_map_host(request);
    std::vector<float> scratch(made->scratch_bytes() / sizeof(float), nan);
    std::vector<const void*> addresses;
    for (const auto& each : inputs) {
      addresses.push_back(each.data());
    }
    std::vector<std::byte> out(static_cast<std::size_t>(extent.frames) *
                               infer_map(settings, specs).bytes(extent.leading));
    EXPECT_FALSE(made->run(nullptr, {.inputs = addresses,
                                     .output = out.data(),
                                     .scratch = scratch.data(),
                                     .extent = extent,
                                     .session = {},
                                     .numbers = tuned.empty() ? nullptr : tuned.data()}));
    return out;
  }

  template <class Number = float>
  [[nodiscard]] std::vector<Number> numbers() const {
    const std::vector<std::byte> out = bytes();
    std::vector<Number> all(out.size() / sizeof(Number));
    std::memcpy(all.data(), out.data(), out.size());
    return all;
  }
};

/// Over one frame of f32.
map_run over_frame(const parameters& settings, const std::vector<float>& x) {
  return {settings,
          {{.type = element_type::f32, .shape = {static_cast<std::int64_t>(x.size())}}},
          {bytes_of(x)},
          {.frames = 1, .leading = 0}};
}

/// Over one complex element.
std::complex<float> of_complex(const std::string& expression, std::complex<float> x) {
  const map_run setup{map_settings_of(expression, {{"output", table({{"dtype", std::string("cf32")}})}}),
                      {{.type = element_type::cf32, .shape = {1}}},
                      {bytes_of(std::vector<float>{x.real(), x.imag()})},
                      {.frames = 1, .leading = 0}};
  const std::vector<float> made = setup.numbers();
  return {made[0], made[1]};
}

float of_real(const std::string& expression, float x = 2.0F) {
  return over_frame(map_settings_of(expression), {x}).numbers().front();
}

std::string complaint(const std::string& expression) {
  const std::vector<tensor_spec> inputs{{.type = element_type::f32, .shape = {4}}};
  try {
    static_cast<void>(parse_map(map_settings_of(expression), inputs));
  } catch (const parameter_error& error) {
    EXPECT_EQ(error.field, "expr");
    return error.what();
  }
  return "";
}

TEST(MapExpression, FollowsTheRulesOfArithmetic) {
  EXPECT_EQ(of_real("1 + x * 3 - 4 / 2"), 5.0F);
  EXPECT_EQ(of_real("-x^2"), -4.0F);
  EXPECT_EQ(of_real("x^-1"), 0.5F);
  EXPECT_EQ(of_real("x^3^2 - 512"), 0.0F);
  EXPECT_EQ(of_real("2 - x - 1"), -1.0F);
  EXPECT_EQ(of_real("8 / x / 2"), 2.0F);
  EXPECT_EQ(of_real("--x"), 2.0F);
  EXPECT_EQ(of_real(" 1e1 +\n\t.5 "), 10.5F);
  EXPECT_EQ(of_real("x < 3 ? x > 1 ? 10 : 20 : 30"), 10.0F);
  EXPECT_EQ(of_real("x == 2 && !(x != 2) || 0"), 1.0F);
  EXPECT_EQ(of_real("(x >= 2) + (x <= 2) + (x > 2)"), 2.0F);
  EXPECT_EQ(of_real("max(1, x, 7, 3) + min(1, x)"), 8.0F);
  EXPECT_EQ(of_real("clamp(x, 3, 5)"), 3.0F);
  EXPECT_EQ(of_real("round(2.5) + round(x + 1.5)"), 6.0F);
  EXPECT_EQ(of_real("pow(x, 10)"), 1024.0F);
  EXPECT_EQ(of_real("x^0"), 1.0F);
}

TEST(MapExpression, TakesArithmeticOnNumbersInDoublePrecision) {
  EXPECT_EQ(of_real("2 * pi / 3 + 0*x"), static_cast<float>(2 * std::numbers::pi / 3));
  EXPECT_EQ(of_real("1 / 3 * 3 - 1 + x"), 2.0F);
  EXPECT_EQ(of_real("1 / (x - 2)"), infinity);
}

TEST(MapExpression, SquaresALengthWithoutTakingItsRoot) {
  for (const char* const expression : {"abs(x)^2", "abs(x) * abs(x)"}) {
    EXPECT_EQ(of_complex(expression, {3.0F, -4.0F}), 25.0F) << expression;
    map_builder builder;
    map_value result = parse_map_expression(expression, {{"x", builder.load(0, true)}}, builder);
    for (const map_step& each : builder.finish(result)) {
      EXPECT_NE(each.operation, map_operation::hypot) << expression;
    }
  }
}

TEST(MapExpression, CallsInputsValuesAndPlacesByName) {
  const std::vector<tensor_spec> specs(2, {.type = element_type::f32, .shape = {2, 2}});
  map_run setup{map_settings_of("a + 10 * right + gain * i0 + 1000 * i1 + n1",
                                {{"inputs", table({{"right", std::string("no.name")}})},
                                 {"values", table({{"gain", std::int64_t{100}}})}},
                                {"a", "no.name"}),
                specs,
                {bytes_of(std::vector<float>{1, 2, 3, 4}), bytes_of(std::vector<float>{5, 6, 7, 8})},
                {.frames = 1, .leading = 0}};
  EXPECT_EQ(setup.numbers(), (std::vector<float>{53, 1064, 175, 1186}));
  setup.settings = map_settings_of("pi", {{"values", table({{"pi", 3.0}})}}, {"a", "b"});
  EXPECT_EQ(setup.numbers().front(), 3.0F);
}

TEST(MapExpression, GivesEachFrameItsOwnNumbers) {
  parameters settings = map_settings_of("a * x + b * i0", {{"values", table({{"a", 7.0}, {"b", 7.0}})}});
  settings.set("tuned", true);
  for (const std::int64_t length : {1, 3, 1024, 1500}) {
    map_run setup{settings, {{.type = element_type::f32, .shape = {length}}}, {}, {.frames = 5, .leading = 0}};
    std::vector<float> x(static_cast<std::size_t>(5 * length));
    for (std::size_t at = 0; at < x.size(); ++at) {
      x[at] = static_cast<float>(at % 97);
    }
    setup.inputs.push_back(bytes_of(x));
    setup.tuned = {0.5, 1, -2, 0, 3, 0.25, 1000, -1, 0, 0};
    const std::vector<float> made = setup.numbers();
    for (std::size_t at = 0; at < x.size(); ++at) {
      const std::size_t frame = at / static_cast<std::size_t>(length);
      const auto place = static_cast<double>(at % static_cast<std::size_t>(length));
      const double expected = setup.tuned[2 * frame] * static_cast<double>(x[at]) + setup.tuned[2 * frame + 1] * place;
      ASSERT_FLOAT_EQ(made[at], static_cast<float>(expected)) << length << " at " << at;
    }
  }
}

TEST(MapExpression, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(complaint("x +"), "\"x +\" ends where a number is wanted, at letter 4");
  EXPECT_EQ(complaint("x x"), "\"x x\" has 'x' where it could end, at letter 3");
  EXPECT_EQ(complaint("(x"), "\"(x\" lacks ')', at letter 3");
  EXPECT_EQ(complaint("x * * 2"), "\"x * * 2\" lacks a number, at letter 5");
  EXPECT_EQ(complaint("x ? 1"), "\"x ? 1\" lacks ':', at letter 6");
  EXPECT_EQ(complaint("sin(x, x)"), "\"sin(x, x)\" gives 'sin' 2 arguments; it takes one, at letter 1");
  EXPECT_EQ(complaint("1 + max(x)"), "\"1 + max(x)\" gives 'max' 1 arguments; it takes two or more, at letter 5");
  EXPECT_EQ(complaint("1 + sin(x + j)"),
            "\"1 + sin(x + j)\" has a complex value where 'sin' takes a real one, at letter 9");
  EXPECT_EQ(complaint("0 < x < 1"), "\"0 < x < 1\" compares twice: write a < b && b < c, at letter 7");
  EXPECT_EQ(complaint("1e39"), "\"1e39\" has a number beyond f32's range, at letter 1");
  EXPECT_THAT(complaint("inptu + 1"), testing::HasSubstr("did you mean 'input'"));
  EXPECT_THAT(complaint("1 + sqr(x)"), testing::HasSubstr("unknown function 'sqr'"));
  EXPECT_THAT(complaint("(x + j)^0.5"), testing::HasSubstr("whole number from -64 to 64"));
  EXPECT_THAT(complaint(std::string(200, '(') + "x" + std::string(200, ')')), testing::HasSubstr("nested too deeply"));
  EXPECT_NE(complaint(""), "");
  EXPECT_NE(complaint("."), "");
}

TEST(MapExpression, HasNoMoreOperationsThanAllowed) {
  std::string sum = "x";
  for (int term = 0; term < 5000; ++term) {
    sum += "+sin(x+" + std::to_string(term) + ")";
  }
  EXPECT_THAT(complaint(sum), testing::HasSubstr("more than 4096 operations"));
}

TEST(MapExpression, TakesOrRefusesAnyText) {
  random_input random;
  SCOPED_TRACE(random.trace());
  constexpr std::array<const char*, 40> words{"x",    "(",    ")",    "+",        "-",      "*",    "/",      "^",
                                              "?",    ":",    ",",    "<",        ">=",     "==",   "!",      "&&",
                                              "||",   "1",    "2.5",  "1e9",      "j",      "pi",   "sin(",   "max(",
                                              "abs(", "exp(", "log(", "sqrt(",    "pow(",   "arg(", "conj(",  "re(",
                                              "im(",  "i0",   "n0",   "complex(", "atan2(", " ",    "clamp(", "isnan("};
  const std::vector<tensor_spec> inputs{{.type = element_type::f32, .shape = {4}}};
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::int64_t left = random.integer(1, 12); left > 0; --left) {
      text += words[static_cast<std::size_t>(random.integer(0, words.size() - 1))];
    }
    try {
      static_cast<void>(
          map_kernel(map_settings_of(text, {{"output", table({{"dtype", std::string("cf32")}})}}), inputs));
      ++taken;
    } catch (const parameter_error& error) {
      ASSERT_THAT(error.what(), testing::HasSubstr(", at letter ")) << text;
    }
  }
  EXPECT_GT(taken, 0);
}

TEST(MapParameters, AreRefusedWithTheirField) {
  const tensor_spec real{.type = element_type::f32, .shape = {2, 3}};
  const tensor_spec row{.type = element_type::f32, .shape = {3}};
  expect_refused("map", {}, {real}, "expr", "is missing");
  expect_refused("map", map_settings_of("x"), {}, "from", "takes 1 to 8 inputs");
  expect_refused("map", map_settings_of("a", {}, {"a", "b"}), {row, real}, "from", "takes inputs of one shape");
  expect_refused("map", map_settings_of("x"), {{.type = element_type::u16, .shape = {3}}}, "from",
                 "takes f32, cf32, u8, i8, i16, i32, cu8, ci8 or ci16, not u16[3]; a 'convert' stage before it makes "
                 "that");
  const auto output = [](const char* type) { return entries{{"output", table({{"dtype", std::string(type)}})}}; };
  expect_refused("map", map_settings_of("x * j", output("f32")), {real}, "output", "the expression is complex");
  expect_refused("map", map_settings_of("x", output("ci8")), {real}, "output", "allowed are f32, cf32");
  expect_refused("map", map_settings_of("x", {{"output", table({{"shape", 3.0}})}}), {real}, "output", "'shape'");
  expect_refused("map", map_settings_of("x", {{"inputs", table({{"y", std::string("inptu")}})}}), {real}, "inputs",
                 "did you mean 'input'");
  expect_refused("map", map_settings_of("x", {{"values", table({{"a b", 1.0}})}}), {real}, "values", "can't call");
  expect_refused("map", map_settings_of("x", {{"values", table({{"a", std::vector<double>{1.0}}})}}), {real}, "values",
                 "is an array");
  auto many = std::make_shared<parameters>();
  for (int number = 0; number < 5000; ++number) {
    many->set("v" + std::to_string(number), static_cast<double>(number));
  }
  expect_refused("map", map_settings_of("x", {{"values", std::shared_ptr<const parameters>(std::move(many))}}), {real},
                 "expr", "more than 4096 operations");
}

/// Parsed for each of its three names, the innermost map would be parsed 3^199 times.
TEST(Map, ParsesEachMapThatItTookInOnce) {
  constexpr std::size_t chained = 200;
  parameters settings = settings_of({{"expr", std::string("x + 1")}, {"from", std::vector<std::string>{"input"}}});
  for (std::size_t at = 1; at < chained; ++at) {
    const auto inner = std::make_shared<const parameters>(std::move(settings));
    settings = settings_of({{"expr", std::string("x + before + m - x - m + 1")},
                            {"from", std::vector<std::string>{"m"}},
                            {"inputs", table({{"before", std::string("m")}})},
                            {"fused", table({{"m", inner}})}});
  }
  const std::vector<tensor_spec> inputs{{.type = element_type::f32, .shape = {1}}};
  const parameters named = map_with_names(settings, {"input"});
  EXPECT_LE(parse_map(named, inputs).steps.size(), 2 + 5 * chained);
  EXPECT_EQ(over_frame(named, {2.0F}).numbers(), std::vector<float>{2.0F + chained});
}

TEST(Map, InfersItsOutput) {
  const tensor_spec variable{.type = element_type::ci16, .shape = {8, 2}, .variable = true};
  EXPECT_EQ(infer_map(map_settings_of("re"), std::vector{variable}).text(), "f32[max 8, 2]");
  EXPECT_EQ(infer_map(map_settings_of("x"), std::vector{variable}).text(), "cf32[max 8, 2]");
  const parameters rounded = map_settings_of("re", {{"output", table({{"dtype", std::string("i16")}})}});
  EXPECT_EQ(infer_map(rounded, std::vector{variable}).text(), "i16[max 8, 2]");
}

TEST(Map, PassesNanAndInfinities) {
  const parameters both = map_settings_of("max(x, 0)");
  const std::vector<float> most = over_frame(both, {nan, -1, infinity, -infinity}).numbers();
  EXPECT_TRUE(std::isnan(most[0]));
  EXPECT_THAT(std::span(most).subspan(1), testing::ElementsAre(0.0F, infinity, 0.0F));
  EXPECT_TRUE(std::isnan(of_real("min(0, x)", nan)));
  EXPECT_TRUE(std::isnan(of_real("clamp(x, 0, 1)", nan)));
  EXPECT_EQ(of_real("isnan(x) ? 7 : x", nan), 7.0F);
  EXPECT_EQ(of_real("x == x", nan), 0.0F);
  EXPECT_EQ(of_real("log10(x)", 0.0F), -infinity);
  EXPECT_TRUE(std::isnan(of_real("sqrt(x)", -1.0F)));
}

TEST(Map, RoundsAndHoldsIntegersInTheirRange) {
  const std::vector<float> x{0.5F, 1.5F, -0.5F, -2.6F, 300.0F, -300.0F, 4e9F, -4e9F, nan, infinity, -infinity};
  const auto as = [&](const char* type) {
    return over_frame(map_settings_of("x", {{"output", table({{"dtype", std::string(type)}})}}), x);
  };
  EXPECT_EQ(as("u8").numbers<std::uint8_t>(), (std::vector<std::uint8_t>{0, 2, 0, 0, 255, 0, 255, 0, 0, 255, 0}));
  EXPECT_EQ(as("i8").numbers<std::int8_t>(),
            (std::vector<std::int8_t>{0, 2, 0, -3, 127, -128, 127, -128, 0, 127, -128}));
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(as("i32").numbers<std::int32_t>(),
            (std::vector<std::int32_t>{0, 2, 0, -3, 300, -300, most, -most - 1, 0, most, -most - 1}));
}

TEST(Map, TakesComplexNumbersAsTheStandardDoes) {
  random_input random;
  SCOPED_TRACE(random.trace());
  using wide = std::complex<double>;
  const std::vector<std::pair<const char*, std::function<wide(wide)>>> all{
      {"x * x", [](wide x) { return x * x; }},
      {"1 / x", [](wide x) { return 1.0 / x; }},
      {"(2 - j) / x", [](wide x) { return wide(2, -1) / x; }},
      {"x / (x + 3)", [](wide x) { return x / (x + 3.0); }},
      {"3 - x", [](wide x) { return 3.0 - x; }},
      {"conj(x) + abs(x)", [](wide x) { return std::conj(x) + std::abs(x); }},
      {"arg(x)", [](wide x) { return wide(std::arg(x)); }},
      {"exp(x)", [](wide x) { return std::exp(x); }},
      {"log(x)", [](wide x) { return std::log(x); }},
      {"sqrt(x)", [](wide x) { return std::sqrt(x); }},
      {"x^5", [](wide x) { return x * x * x * x * x; }},
      {"x^-2", [](wide x) { return 1.0 / (x * x); }},
      {"re > im ? x : 1", [](wide x) { return x.real() > x.imag() ? x : wide(1); }},
      {"complex(im, re)", [](wide x) { return wide(x.imag(), x.real()); }},
      {"re(x) * im(x) - -x", [](wide x) { return x.real() * x.imag() + x; }},
  };
  for (int round = 0; round < 50; ++round) {
    const std::complex<float> x(static_cast<float>(random.real(-4, 4)), static_cast<float>(random.real(-4, 4)));
    for (const auto& [expression, reference] : all) {
      const wide expected = reference(wide(x));
      const wide got(of_complex(expression, x));
      ASSERT_LE(std::abs(got - expected), 4e-6 * std::max(std::abs(expected), 1.0)) << expression << " of " << x;
    }
  }
  EXPECT_EQ(of_complex("sqrt(x)", {0, 0}), std::complex<float>(0, 0));
  EXPECT_EQ(of_complex("sqrt(x)", {-4, 0}), std::complex<float>(0, 2));
  EXPECT_FLOAT_EQ(of_complex("1 / x", {3e37F, 3e37F}).imag(), -1.0F / 6e37F);
  EXPECT_EQ(of_complex("x / x", {1e30F, 1e30F}), std::complex<float>(1, 0));
}

TEST(Map, RepeatsAnInputWithTheTrailingExtents) {
  const map_run setup{
      map_settings_of("a + b + 1000 * i0", {}, {"a", "b"}),
      {{.type = element_type::f32, .shape = {4, 3}, .variable = true}, {.type = element_type::i16, .shape = {3}}},
      {bytes_of(std::vector<float>(12, 0.5F)), bytes_of(std::vector<std::int16_t>{1, 2, 3, 4, 5, 6})},
      {.frames = 2, .leading = 2}};
  EXPECT_EQ(setup.numbers(),
            (std::vector<float>{1.5, 2.5, 3.5, 1001.5, 1002.5, 1003.5, 4.5, 5.5, 6.5, 1004.5, 1005.5, 1006.5}));
}

TEST(Map, GoesOverItsDataOnceUnlessAnInputRepeats) {
  const tensor_spec frame{.type = element_type::f32, .shape = {4, 3}};
  const std::vector<tensor_spec> alike{frame, frame};
  const std::vector<tensor_spec> repeating{frame, {.type = element_type::f32, .shape = {3}}};
  const parameters settings = map_settings_of("a + b", {}, {"a", "b"});
  EXPECT_TRUE(make_map_host({.settings = settings, .inputs = alike})->single_pass());
  EXPECT_TRUE(map_kernel(settings, alike).flag("single_pass", false));
  EXPECT_FALSE(make_map_host({.settings = settings, .inputs = repeating})->single_pass());
  EXPECT_FALSE(map_kernel(settings, repeating).flag("single_pass", true));
}

/// A random expression of real x and y and a complex z: its text, and what it is in double precision. A small change of
/// an operand changes its value little.
struct random_expression {
  using point = std::array<double, 4>;  // x, y, and both parts of z
  std::string text;
  std::function<double(const point&)> value;
};

random_expression random_real(random_input& random, int depth) {
  if (depth == 0) {
    switch (random.integer(0, 4)) {
      case 0:
        return {"x", [](const auto& at) { return at[0]; }};
      case 1:
        return {"y", [](const auto& at) { return at[1]; }};
      case 2:
        return {"re(z)", [](const auto& at) { return at[2]; }};
      case 3:
        return {"im(z)", [](const auto& at) { return at[3]; }};
      default:
        return {"0.75", [](const auto& /*at*/) { return 0.75; }};
    }
  }
  const random_expression a = random_real(random, depth - 1);
  const random_expression b = random_real(random, static_cast<int>(random.integer(0, depth - 1)));
  const auto one = [&](const std::string& name, double (*function)(double)) {
    return random_expression{name + "(" + a.text + ")",
                             [f = a.value, function](const auto& at) { return function(f(at)); }};
  };
  const auto two = [&](const std::string& text, auto function) {
    return random_expression{"(" + text + ")",
                             [f = a.value, g = b.value, function](const auto& at) { return function(f(at), g(at)); }};
  };
  switch (random.integer(0, 12)) {
    case 0:
      return two(a.text + " + " + b.text, [](double l, double r) { return l + r; });
    case 1:
      return two("(" + a.text + " - " + b.text + ") / 2", [](double l, double r) { return (l - r) / 2; });
    case 2:
      return two("sin(" + a.text + ") * cos(" + b.text + ")",
                 [](double l, double r) { return std::sin(l) * std::cos(r); });
    case 3:
      return two(a.text + " / (2 + abs(" + b.text + "))", [](double l, double r) { return l / (2 + std::abs(r)); });
    case 4:
      return two("max(" + a.text + ", " + b.text + ")", [](double l, double r) { return std::max(l, r); });
    case 5:
      return {"(x < y ? " + a.text + " : " + b.text + ")",
              [f = a.value, g = b.value](const auto& at) { return at[0] < at[1] ? f(at) : g(at); }};
    case 6:
      return one("tanh", [](double v) { return std::tanh(v); });
    case 7:
      return one("atan", [](double v) { return std::atan(v); });
    case 8:
      return two("log(1 + abs(" + a.text + ")) - " + b.text,
                 [](double l, double r) { return std::log(1 + std::abs(l)) - r; });
    case 9:
      return two("sqrt(1 + (" + a.text + ")^2) + " + b.text,
                 [](double l, double r) { return std::sqrt(1 + l * l) + r; });
    case 10:
      return two("exp(-abs(" + a.text + ")) + " + b.text,
                 [](double l, double r) { return std::exp(-std::abs(l)) + r; });
    case 11:
      return two("abs(complex(" + a.text + ", " + b.text + "))", [](double l, double r) { return std::hypot(l, r); });
    default:
      return two("re(complex(" + a.text + ", 1) * exp(j * (" + b.text + ")))",
                 [](double l, double r) { return l * std::cos(r) - std::sin(r); });
  }
}

TEST(Map, GivesForRandomExpressionsWhatDoublePrecisionGives) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const std::vector<tensor_spec> specs{{.type = element_type::f32, .shape = {50}},
                                       {.type = element_type::f32, .shape = {50}},
                                       {.type = element_type::cf32, .shape = {50}}};
  for (int round = 0; round < 100; ++round) {
    const random_expression made = random_real(random, static_cast<int>(random.integer(1, 4)));
    const std::vector<float> x = random.normal(1250);
    const std::vector<float> y = random.normal(1250);
    const std::vector<float> z = random.normal(2500);
    const map_run setup{map_settings_of(made.text, {}, {"x", "y", "z"}),
                        specs,
                        {bytes_of(x), bytes_of(y), bytes_of(z)},
                        {.frames = 25, .leading = 0}};
    const std::vector<float> got = setup.numbers();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double expected = made.value({x[i], y[i], z[2 * i], z[2 * i + 1]});
      ASSERT_NEAR(got[i], expected, 1e-4 * std::max(1.0, std::abs(expected))) << made.text << " at " << i;
    }
  }
}

TEST(Map, GivesTheSameBitsWhereverAnElementLies) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const parameters settings = map_settings_of("log10(abs(x)) + sin(x) * exp(x) - pow(abs(x), 0.3) + atan2(x, 2)");
  const std::vector<float> x = random.normal(2100);
  const std::vector<float> together = over_frame(settings, x).numbers();
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(over_frame(settings, {x[i]}).numbers().front()),
              std::bit_cast<std::uint32_t>(together[i]))
        << "element " << i;
  }
}

TEST(Map, MayWriteOverItsFirstInput) {
  random_input random;
  const std::vector<float> x = random.normal(3000);
  const map_run apart = over_frame(map_settings_of("x*x - x"), x);
  std::vector<float> data = x;
  const std::unique_ptr<operation> made =
      make_map_host({.settings = apart.settings, .inputs = apart.specs, .max_frames = 1});
  std::vector<float> scratch(made->scratch_bytes() / sizeof(float));
  const std::vector<const void*> addresses{data.data()};
  EXPECT_FALSE(made->run(nullptr, {.inputs = addresses,
                                   .output = data.data(),
                                   .scratch = scratch.data(),
                                   .extent = {.frames = 1, .leading = 0},
                                   .session = {}}));
  EXPECT_EQ(data, apart.numbers());
}

/// The CUDA C++ of a map as a program of this machine, which takes one thread of the launch after the other.
class kernel_on_host {
 public:
  static constexpr const char* shim = R"(
#include <cmath>
#include <cstddef>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __restrict__
using namespace std;
static struct { unsigned x; } blockIdx, threadIdx;
)";

  explicit kernel_on_host(const map_run& setup) : setup_(setup) {
    std::string folder = (std::filesystem::temp_directory_path() / "penstock-map-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) {
      return;
    }
    folder_ = folder;
    const parameters kernel = map_kernel(setup.settings, setup.specs);
    std::string call =
        "\nextern \"C\" void launch(unsigned blocks, void** p, long long count, long long n0) {\n"
        "  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)\n"
        "    for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x)\n      penstock_map(";
    for (std::size_t at = 0; at <= setup.specs.size(); ++at) {
      call += "(" + pointer_type(at) + ")p[" + std::to_string(at) + "], ";
    }
    std::ofstream(folder_ / "map.cpp") << shim << kernel.code("file").text << call << "count, n0);\n}\n";
    const std::string command = "c++ -std=c++20 -O1 -ffp-contract=off -w -shared -fPIC -o " +
                                (folder_ / "map.so").string() + " " + (folder_ / "map.cpp").string();
    built_ = std::system(command.c_str()) == 0;
    library_ = built_ ? ::dlopen((folder_ / "map.so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  }
  kernel_on_host(const kernel_on_host&) = delete;
  kernel_on_host& operator=(const kernel_on_host&) = delete;
  ~kernel_on_host() {
    if (library_ != nullptr) {
      ::dlclose(library_);
    }
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] bool built() const noexcept { return library_ != nullptr; }

  [[nodiscard]] std::vector<std::byte> bytes() const {
    const tensor_spec& frame = setup_.specs.front();
    const tensor_spec output = infer_map(setup_.settings, setup_.specs);
    const std::int64_t leading = frame.variable ? setup_.extent.leading : frame.shape.front();
    // Aligned as on the device.
    std::vector<std::vector<std::max_align_t>> memory;
    std::vector<void*> places;
    for (const auto& each : setup_.inputs) {
      memory.emplace_back(each.size() / sizeof(std::max_align_t) + 1);
      std::memcpy(memory.back().data(), each.data(), each.size());
      places.push_back(memory.back().data());
    }
    std::vector<std::byte> out(static_cast<std::size_t>(setup_.extent.frames) * output.bytes(leading));
    memory.emplace_back(out.size() / sizeof(std::max_align_t) + 1);
    places.push_back(memory.back().data());
    const auto launch = reinterpret_cast<void (*)(unsigned, void**, long long, long long)>(::dlsym(library_, "launch"));
    const std::int64_t count = setup_.extent.frames * frame.elements(leading);
    launch(static_cast<unsigned>(count / 512 + 1), places.data(), count, leading);
    std::memcpy(out.data(), places.back(), out.size());
    return out;
  }

 private:
  [[nodiscard]] std::string pointer_type(std::size_t at) const {
    const bool is_output = at == setup_.specs.size();
    const element_type type = is_output ? infer_map(setup_.settings, setup_.specs).type : setup_.specs[at].type;
    switch (type) {
      case element_type::u8:
      case element_type::cu8:
        return "unsigned char*";
      case element_type::i8:
      case element_type::ci8:
        return "signed char*";
      case element_type::i16:
      case element_type::ci16:
        return "short*";
      case element_type::i32:
        return "int*";
      default:
        return "float*";
    }
  }

  const map_run& setup_;
  std::filesystem::path folder_;
  void* library_ = nullptr;
  bool built_ = false;
};

TEST(MapKernel, ComputesWhatTheHostDoes) {
  if (std::system("c++ --version > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "there is no compiler on this machine";
  }
  random_input random;
  SCOPED_TRACE(random.trace());
  const auto integers = [&](std::size_t bytes) {
    std::vector<std::byte> made(bytes);
    for (std::byte& each : made) {
      each = static_cast<std::byte>(random.integer(0, 255));
    }
    return made;
  };
  const auto type = [](const char* name) { return entries{{"output", table({{"dtype", std::string(name)}})}}; };
  const tensor_spec real{.type = element_type::f32, .shape = {7, 11}};
  const tensor_spec iq{.type = element_type::cf32, .shape = {9, 11}, .variable = true};
  const tensor_spec bytes{.type = element_type::cu8, .shape = {7, 11}};
  const std::vector<map_run> all{
      // Sums and products are equal to the bit.
      {map_settings_of("x*x - 3*x + i0 + 10*i1"), {real}, {bytes_of(random.normal(77 * 30))}, {30, 0}},
      {map_settings_of("re*re + im*im + 100*i0 + n0"), {iq}, {bytes_of(random.normal(2 * 55 * 30))}, {30, 5}},
      {map_settings_of("x / 3 - conj(x)"), {bytes}, {integers(2 * 77 * 30)}, {30, 0}},
      {map_settings_of("100 * max(x, -1) / sqrt(x*x + 1)", type("i8")),
       {real},
       {bytes_of(random.normal(77 * 3))},
       {3, 0}},
      {map_settings_of("1e9 * x", type("i32")), {real}, {bytes_of(random.normal(77 * 3))}, {3, 0}},
      {map_settings_of("a > 0 && b < 100 || isnan(a) ? a * b : floor(a) + round(b)", {}, {"a", "b"}),
       {real, {.type = element_type::i16, .shape = {11}}},
       {bytes_of(random.normal(77 * 30)), integers(2 * 11 * 30)},
       {30, 0}},
  };
  for (const map_run& each : all) {
    const kernel_on_host kernel(each);
    ASSERT_TRUE(kernel.built()) << each.settings.text("expr");
    EXPECT_EQ(kernel.bytes(), each.bytes()) << each.settings.text("expr");
  }
}

}  // namespace
}  // namespace penstock
