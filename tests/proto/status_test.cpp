#include "proto/status.hpp"

#include <set>

#include <gtest/gtest.h>

namespace penstock::wire {
namespace {

TEST(Status, EveryCodeAndNameOfTheTableIsThereOnce) {
  std::set<status> codes;
  std::set<std::string_view> names;
  for (const status_entry& row : status_table()) {
    EXPECT_TRUE(codes.insert(row.code).second) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(name_of(row.code), row.name);
    EXPECT_TRUE(row.meaning.ends_with('.')) << row.name;
    EXPECT_LT(static_cast<std::size_t>(kind_of(row.code)), status_kinds) << row.name;
  }
  EXPECT_EQ(codes.size(), 29U);
}

TEST(Status, TheFirstCodeOfEachKindHasTheKindsName) {
  for (std::size_t kind = 0; kind < status_kinds; ++kind) {
    const auto code = static_cast<status>(kind << 8U);
    EXPECT_EQ(name_of(code), name_of(static_cast<status_kind>(kind)));
  }
}

TEST(Status, AnUnknownReasonHasTheNameOfItsKind) {
  EXPECT_EQ(name_of(static_cast<status>(0x01FE)), "REJECTED");
  EXPECT_EQ(name_of(static_cast<status>(0x04FE)), "FAILED");
}

TEST(Status, AnUnknownKindIsUnknown) {
  EXPECT_EQ(name_of(static_cast<status>(0x0700)), "UNKNOWN");
  EXPECT_EQ(name_of(static_cast<status>(0xFFFF)), "UNKNOWN");
  EXPECT_EQ(name_of(static_cast<status_kind>(255)), "UNKNOWN");
}

TEST(Status, KindIsTheHighByte) {
  EXPECT_EQ(kind_of(status::ok), status_kind::ok);
  EXPECT_EQ(kind_of(status::too_many_clients), status_kind::rejected);
  EXPECT_EQ(kind_of(status::too_many_sessions), status_kind::rejected);
  EXPECT_EQ(kind_of(status::unknown_repeat), status_kind::rejected);
  EXPECT_EQ(kind_of(status::expired), status_kind::expired);
  EXPECT_EQ(kind_of(status::cancelled), status_kind::cancelled);
  EXPECT_EQ(kind_of(status::device_failed), status_kind::failed);
  EXPECT_EQ(kind_of(status::shutdown), status_kind::shutdown);
  EXPECT_EQ(kind_of(status::session_lost), status_kind::session_lost);
}

}  // namespace
}  // namespace penstock::wire
