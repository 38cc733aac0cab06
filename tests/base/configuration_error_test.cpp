#include "base/configuration_error.hpp"

#include <array>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::array<std::string_view, 4> names{"streams", "slots", "completion", "id"};

TEST(suggestion, FindsTheNearestName) {
  EXPECT_EQ(nearest_name("stream", names), "streams");
  EXPECT_EQ(nearest_name("sltos", names), "slots");
  EXPECT_EQ(nearest_name("COMPLETION", names), "completion");
  EXPECT_EQ(nearest_name("completoin", names), "completion");
  EXPECT_EQ(nearest_name("ID", names), "id");
}

TEST(suggestion, FindsNothingNearAnotherWord) {
  EXPECT_EQ(nearest_name("backend", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(1000, 's'), names), "");
}

TEST(suggestion, CountsASwapAsOneEdit) {
  constexpr std::array<std::string_view, 2> pair{"abcx", "badc"};
  EXPECT_EQ(nearest_name("abdc", pair), "badc");
}

TEST(suggestion, ListsWhatIsKnownWhenNothingIsNear) {
  EXPECT_EQ(suggestion("stream", names), "; did you mean 'streams'?");
  EXPECT_EQ(suggestion("backend", names), "; known: streams, slots, completion, id");
  EXPECT_EQ(suggestion("backend", {}), "");
}

}  // namespace
}  // namespace penstock
