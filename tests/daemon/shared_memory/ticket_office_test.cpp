#include "daemon/shared_memory/ticket_office.hpp"

#include <set>

#include <gtest/gtest.h>

#include "tests/support/start.hpp"

namespace penstock {
namespace {

using testing::start;

TEST(TicketOffice, RedeemsWhatItIssuedOnce) {
  ticket_office office;
  const std::string ticket = office.issue({.shard = 3, .client = "ann", .incarnation = 2, .bytes = 4096}, start);
  const auto found = office.redeem(ticket, start);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->shard, 3U);
  EXPECT_EQ(found->client, "ann");
  EXPECT_EQ(found->incarnation, 2U);
  EXPECT_EQ(found->bytes, 4096U);
  EXPECT_FALSE(office.redeem(ticket, start));
}

TEST(TicketOffice, KnowsNoOthers) {
  ticket_office office;
  std::string ticket = office.issue({}, start);
  ticket.back() = ticket.back() == '0' ? '1' : '0';
  EXPECT_FALSE(office.redeem(ticket, start));
  EXPECT_FALSE(office.redeem("", start));
}

TEST(TicketOffice, ForgetsThemInTime) {
  ticket_office office;
  const std::string early = office.issue({}, start);
  const std::string late = office.issue({}, start + ticket_office::valid / 2);
  EXPECT_FALSE(office.redeem(early, start + ticket_office::valid));
  EXPECT_TRUE(office.redeem(late, start + ticket_office::valid));
}

TEST(TicketOffice, GivesEachTicketOnceAndOnlySoManyAtATime) {
  ticket_office office;
  std::set<std::string> all;
  for (std::size_t each = 0; each < ticket_office::most; ++each) {
    const std::string ticket =
        office.issue({.shard = 0, .client = std::to_string(each), .incarnation = 2, .bytes = 1}, start);
    EXPECT_EQ(ticket.size(), ticket_office::digits);
    EXPECT_EQ(ticket.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(all.insert(ticket).second);
  }
  EXPECT_EQ(office.issue({}, start), "");
  EXPECT_NE(office.issue({}, start + ticket_office::valid), "") << "the old ones have gone";
}

TEST(TicketOffice, GivesAClientOnlyAFewAtATime) {
  ticket_office office;
  const arena_order anns{.shard = 1, .client = "ann", .incarnation = 2, .bytes = 1};
  for (std::size_t each = 0; each < ticket_office::most_of_a_client; ++each) {
    EXPECT_NE(office.issue(anns, start), "");
  }
  EXPECT_EQ(office.issue(anns, start), "");
  EXPECT_NE(office.issue({.shard = 2, .client = "ann", .incarnation = 2, .bytes = 1}, start), "")
      << "another one, on another shard";
  EXPECT_NE(office.issue(anns, start + ticket_office::valid), "");
}

}  // namespace
}  // namespace penstock
