#include "daemon/config/toml_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

TEST(foreign_character, MayStandInCommentsAndStrings) {
  for (const char* text :
       {"", "a = 1\n", "# µs\n", "a = 'µs' # µs", "a = \"\\\"µ\\\\\" # µ", "'µ' = [\"µ\", 'µ\\']", "\xEF\xBB\xBF[a]"}) {
    EXPECT_EQ(line_of_foreign_character(text), std::nullopt) << text;
  }
}

TEST(foreign_character, IsFoundWithItsLine) {
  EXPECT_EQ(line_of_foreign_character("a = 500µs"), 1U);
  EXPECT_EQ(line_of_foreign_character("\n\nµ = 5\n"), 3U);
  EXPECT_EQ(line_of_foreign_character("a = 'x' µ"), 1U);
  EXPECT_EQ(line_of_foreign_character("a = \"\\\"\" µ"), 1U);
  EXPECT_EQ(line_of_foreign_character("s = \"\"\"\\\n\xC2\xA7\"\"\"\n"), 2U);
  EXPECT_EQ(line_of_foreign_character("\xCC\xAA"), 1U);
}

TEST(foreign_character, IsRefusedBySettings) {
  EXPECT_THAT(complaint_about("config_version = 1\n[daemon]\ndrain_timeout = 500\xC2\xB5s\n"),
              testing::StartsWith("penstock.toml:3: a character outside ASCII stands outside of quotes"));
}

TEST(WideText, IsKnownByItsMarkOrItsZeros) {
  using namespace std::string_view_literals;
  EXPECT_TRUE(
      is_wide_text("\xFF\xFE"
                   "c\0o\0"sv));
  EXPECT_TRUE(is_wide_text("\xFE\xFF\0c"sv));
  EXPECT_TRUE(is_wide_text("c\0o\0"sv));
  EXPECT_TRUE(is_wide_text("\0c\0o"sv));
  EXPECT_FALSE(
      is_wide_text("\xEF\xBB\xBF"
                   "config_version = 1"sv));
  EXPECT_FALSE(is_wide_text(""sv));
  EXPECT_FALSE(is_wide_text("c"sv));
}

}  // namespace

}  // namespace penstock
