#include "kernels/size_expression.hpp"

#include <array>
#include <limits>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::array<std::string_view, 3> names{"frames", "n0", "n1"};

std::int64_t value(std::string_view text, std::array<std::int64_t, 3> values = {7, 1000, 3}) {
  return size_expression(text, names).value(values);
}

std::string complaint(std::string_view text) {
  try {
    size_expression(text, names);
  } catch (const expression_error& error) {
    return error.what();
  }
  return "";
}

TEST(SizeExpression, FollowsTheRulesOfArithmetic) {
  EXPECT_EQ(value("1 + 2 * 3"), 7);
  EXPECT_EQ(value("(1 + 2) * 3"), 9);
  EXPECT_EQ(value("10 - 3 - 2"), 5);
  EXPECT_EQ(value("24 / 4 / 2"), 3);
  EXPECT_EQ(value("-2 + 5"), 3);
  EXPECT_EQ(value("n0 % 256"), 232);
  EXPECT_EQ(value("min(n0, 64) + max(frames, n1)"), 71);
}

TEST(SizeExpression, RoundsDownAndWithinCeilUp) {
  EXPECT_EQ(value("n0 / 256"), 3);
  EXPECT_EQ(value("ceil(n0 / 256)"), 4);
  EXPECT_EQ(value("ceil(n0 / 250)"), 4);
  EXPECT_EQ(value("ceil(n0 / 256) * 256 / 1000"), 1);
  EXPECT_EQ(value("-7 / 2"), -4);
  EXPECT_EQ(value("ceil(-7 / 2)"), -3);
}

TEST(SizeExpression, StaysWithin64Bits) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(value("9223372036854775807 + 1"), largest);
  EXPECT_EQ(value("9223372036854775807 * n0"), largest);
  EXPECT_EQ(value("(-9223372036854775807 - 1) / -1"), largest);
  EXPECT_EQ(value("1 / (n0 - 1000)"), largest);
  EXPECT_EQ(value("1 % (n0 - 1000)"), largest);
}

TEST(SizeExpression, KnowsWhatItDependsOn) {
  const size_expression expression("ceil(n0 / 256) * 2", names);
  EXPECT_FALSE(expression.uses(0));
  EXPECT_TRUE(expression.uses(1));
  EXPECT_EQ(size_expression(std::int64_t{12}).value({}), 12);
}

TEST(SizeExpression, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(complaint("n0 / "), "\"n0 / \" ends where a number is wanted, at letter 6");
  EXPECT_EQ(complaint("n0 n1"), "\"n0 n1\" has 'n' where it could end, at letter 4");
  EXPECT_EQ(complaint("ceil(n0 / 2"), "\"ceil(n0 / 2\" lacks ')', at letter 12");
  EXPECT_EQ(complaint("n2"), "\"n2\" has an unknown name 'n2' (known: frames, n0, n1), at letter 1");
  EXPECT_EQ(complaint("sqrt(4)"), "\"sqrt(4)\" has an unknown function 'sqrt' (known: ceil, min, max), at letter 1");
  EXPECT_NE(complaint("99999999999999999999"), "");
  EXPECT_NE(complaint(std::string(40, '(') + "1" + std::string(40, ')')), "");
  EXPECT_NE(complaint(""), "");
  EXPECT_NE(complaint("1 ? 2"), "");
}

}  // namespace
}  // namespace penstock
