#include "kernels/parameters.hpp"

#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::HasSubstr;

parameters some_of_each() {
  parameters settings;
  settings.set("flag", true);
  settings.set("integer", std::int64_t{-7});
  settings.set("number", 2.5);
  settings.set("text", std::string{"hann"});
  settings.set("numbers", std::vector<double>{1.0, 2.0});
  return settings;
}

TEST(Parameters, GiveBackWhatWasSet) {
  const parameters settings = some_of_each();
  EXPECT_TRUE(settings.flag("flag", false));
  EXPECT_EQ(settings.integer("integer", 0), -7);
  EXPECT_EQ(settings.number("number", 0.0), 2.5);
  EXPECT_EQ(settings.number("number"), 2.5);
  EXPECT_EQ(settings.text("text", ""), "hann");
  EXPECT_EQ(settings.text("text"), "hann");
  EXPECT_EQ(settings.numbers("numbers"), (std::vector<double>{1.0, 2.0}));
}

TEST(Parameters, FallBackWhereAKeyIsMissing) {
  const parameters settings;
  EXPECT_TRUE(settings.flag("x", true));
  EXPECT_EQ(settings.integer("x", 3), 3);
  EXPECT_EQ(settings.number("x", 0.5), 0.5);
  EXPECT_EQ(settings.text("x", "hann"), "hann");
  EXPECT_FALSE(settings.has("x"));
}

TEST(Parameters, TakeAnIntegerAsANumber) {
  EXPECT_EQ(some_of_each().number("integer"), -7.0);
}

TEST(Parameters, KeepTheLastValueOfAKey) {
  parameters settings;
  settings.set("x", 1.0);
  settings.set("x", 2.0);
  EXPECT_EQ(settings.number("x"), 2.0);
  EXPECT_EQ(std::distance(settings.begin(), settings.end()), 1);
}

TEST(Parameters, TakeWholeNumbersAsTexts) {
  const auto texts_of = [](double number) {
    parameters settings;
    settings.set("block", std::vector<double>{number});
    return settings.texts("block");
  };
  EXPECT_EQ(texts_of(-32.0), std::vector<std::string>{"-32"});
  EXPECT_EQ(texts_of(-0x1p63), std::vector<std::string>{"-9223372036854775808"});
  for (const double number : {2.5, 1e30, -1e30, 0x1p63, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(static_cast<void>(texts_of(number)), parameter_error) << number;
  }
}

struct wrong_kind {
  const char* key;
  const char* wanted;
  std::function<void(const parameters&)> get;
};

TEST(Parameters, NameTheKeyAndTheKindThatItMustBe) {
  const parameters settings = some_of_each();
  for (const wrong_kind& row : {
           wrong_kind{"text", "true or false", [](const parameters& p) { static_cast<void>(p.flag("text", false)); }},
           {"number", "an integer", [](const parameters& p) { static_cast<void>(p.integer("number", 0)); }},
           {"flag", "a number", [](const parameters& p) { static_cast<void>(p.number("flag", 0.0)); }},
           {"flag", "a number", [](const parameters& p) { static_cast<void>(p.number("flag")); }},
           {"integer", "a string", [](const parameters& p) { static_cast<void>(p.text("integer", "")); }},
           {"numbers", "a string", [](const parameters& p) { static_cast<void>(p.text("numbers")); }},
           {"number", "a list of numbers", [](const parameters& p) { static_cast<void>(p.numbers("number")); }},
       }) {
    try {
      row.get(settings);
      ADD_FAILURE() << row.key << " was taken as " << row.wanted;
    } catch (const parameter_error& error) {
      EXPECT_EQ(error.field, row.key);
      EXPECT_THAT(error.what(), HasSubstr(row.wanted));
    }
  }
}

TEST(Parameters, NameAKeyThatMustBeThere) {
  const parameters settings;
  for (const auto& get : std::vector<std::function<void()>>{[&] { static_cast<void>(settings.number("gain")); },
                                                            [&] { static_cast<void>(settings.text("gain")); },
                                                            [&] { static_cast<void>(settings.numbers("gain")); }}) {
    try {
      get();
      ADD_FAILURE() << "no error";
    } catch (const parameter_error& error) {
      EXPECT_EQ(error.field, "gain");
      EXPECT_THAT(error.what(), HasSubstr("missing"));
    }
  }
}

}  // namespace
}  // namespace penstock
