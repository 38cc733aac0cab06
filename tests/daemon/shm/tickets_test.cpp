#include "daemon/shm/tickets.hpp"

#include <set>

#include <gtest/gtest.h>

#include "tests/support/start.hpp"

namespace penstock {
namespace {

using testing::start;

TEST(TicketTable, RedeemsWhatItIssuedOnce) {
  ticket_table tickets;
  const std::string ticket = tickets.issue({.shard = 3, .client = "ann", .incarnation = 2, .bytes = 4096}, start);
  const auto found = tickets.redeem(ticket, start);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->shard, 3U);
  EXPECT_EQ(found->client, "ann");
  EXPECT_EQ(found->incarnation, 2U);
  EXPECT_EQ(found->bytes, 4096U);
  EXPECT_FALSE(tickets.redeem(ticket, start));
}

TEST(TicketTable, KnowsNoOthers) {
  ticket_table tickets;
  std::string ticket = tickets.issue({}, start);
  ticket.back() = ticket.back() == '0' ? '1' : '0';
  EXPECT_FALSE(tickets.redeem(ticket, start));
  EXPECT_FALSE(tickets.redeem("", start));
}

TEST(TicketTable, ForgetsThemInTime) {
  ticket_table tickets;
  const std::string early = tickets.issue({}, start);
  const std::string late = tickets.issue({}, start + ticket_table::valid / 2);
  EXPECT_FALSE(tickets.redeem(early, start + ticket_table::valid));
  EXPECT_TRUE(tickets.redeem(late, start + ticket_table::valid));
}

TEST(TicketTable, GivesEachTicketOnceAndOnlySoManyAtATime) {
  ticket_table tickets;
  std::set<std::string> all;
  for (std::size_t each = 0; each < ticket_table::most; ++each) {
    const std::string ticket =
        tickets.issue({.shard = 0, .client = std::to_string(each), .incarnation = 2, .bytes = 1}, start);
    EXPECT_EQ(ticket.size(), ticket_table::digits);
    EXPECT_EQ(ticket.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(all.insert(ticket).second);
  }
  EXPECT_EQ(tickets.issue({}, start), "");
  EXPECT_NE(tickets.issue({}, start + ticket_table::valid), "") << "the old ones have gone";
}

TEST(TicketTable, GivesAClientOnlyAFewAtATime) {
  ticket_table tickets;
  const arena_order anns{.shard = 1, .client = "ann", .incarnation = 2, .bytes = 1};
  for (std::size_t each = 0; each < ticket_table::most_of_a_client; ++each) {
    EXPECT_NE(tickets.issue(anns, start), "");
  }
  EXPECT_EQ(tickets.issue(anns, start), "");
  EXPECT_NE(tickets.issue({.shard = 2, .client = "ann", .incarnation = 2, .bytes = 1}, start), "")
      << "another one, on another shard";
  EXPECT_NE(tickets.issue(anns, start + ticket_table::valid), "");
}

}  // namespace
}  // namespace penstock
