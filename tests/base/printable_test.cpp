#include "base/printable.hpp"

#include <string>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Printable, LeavesTextsAsTheyAre) {
  for (const std::string text : {"", "model/data/cpu_1.so", "Größe → 3 µs", "\xf0\x9f\x8e\xb5"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesWhatATerminalWouldActUpon) {
  EXPECT_EQ(printable("\x1b[2J\n\x7f"), R"(\x1b[2J\x0a\x7f)");
  EXPECT_EQ(printable(std::string("a\0b", 3)), R"(a\x00b)");
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m"),
            R"(\xc2\x9b1m)");  // of Latin-1: the same as ESC [
}

TEST(Printable, MakesNamesThatFit) {
  EXPECT_EQ(printable_name("Größe", 64), "Größe");
  EXPECT_EQ(printable_name("Größe", 3), "Gr");
  EXPECT_EQ(printable_name("a\xff\n\xc3", 64), "a___");
  EXPECT_EQ(printable_name("\xff\xfe\xfd", 2), "__");
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("\xff"), R"(\xff)");
  EXPECT_EQ(printable("a\xc3"), R"(a\xc3)");                // cut off
  EXPECT_EQ(printable("\xc0\xaf"), R"(\xc0\xaf)");          // longer than need be
  EXPECT_EQ(printable("\xed\xa0\x80"), R"(\xed\xa0\x80)");  // half of a pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)");
  EXPECT_EQ(printable("\xe2\x28\xa1"), R"(\xe2(\xa1)");
}

TEST(Printable, ShortensLongOnes) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef…");
  EXPECT_EQ(printable(std::string(1000, 'x')).size(), 120 + std::string("…").size());
}

}  // namespace
}  // namespace penstock
