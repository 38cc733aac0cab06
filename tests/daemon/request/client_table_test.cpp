#include "daemon/request/client_table.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/start.hpp"

namespace penstock {
namespace {

using std::chrono::seconds;
using testing::start;

TEST(ClientTable, FindsWhomItAdmitted) {
  client_table table(4, 8);
  client_record* const made = table.admit("a", start);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(table.find("a"), made);
  EXPECT_EQ(made->last_heard, start);
  EXPECT_EQ(table.find("b"), nullptr);
}

TEST(ClientTable, TellsIdentitiesWithZeroBytesApart) {
  client_table table(4, 8);
  const std::string one("\0x", 2);
  const std::string other("\0y", 2);
  EXPECT_NE(table.admit(one, start), table.admit(other, start));
  EXPECT_EQ(table.find(std::string("\0", 1)), nullptr);
}

TEST(ClientTable, KeepsARecordOverASecondHello) {
  client_table table(4, 8);
  client_record* const made = table.admit("a", start);
  made->requests = 3;
  made->gone = true;
  EXPECT_EQ(table.admit("a", start + seconds{1}), made);
  EXPECT_EQ(made->requests, 3U);
  EXPECT_FALSE(made->gone);
  EXPECT_EQ(made->last_heard, start + seconds{1});
}

TEST(ClientTable, RefusesWhenFullButNotThoseItKnows) {
  client_table table(2, 8);
  client_record* const first = table.admit("a", start);
  (void)table.admit("b", start);
  EXPECT_EQ(table.admit("c", start), nullptr);
  EXPECT_EQ(table.admit("a", start), first);
  EXPECT_EQ(table.size(), 2U);
}

TEST(ClientTable, GivesPlacesOfTheForgottenAgainAndNeverOneTwice) {
  client_table table(8, 8);
  for (int round = 0; round < 50; ++round) {
    std::set<std::uint32_t> places;
    for (int client = 0; client < 8; ++client) {
      places.insert(table.admit(std::to_string(round * 8 + client), start)->index);
    }
    EXPECT_EQ(places.size(), 8U);
    EXPECT_LT(*places.rbegin(), 8U);
    for (int client = 0; client < 8; ++client) {
      table.forget(*table.find(std::to_string(round * 8 + client)));
    }
  }
  EXPECT_EQ(table.size(), 0U);
}

TEST(ClientTable, TellsWhoComesOverAConnectionFromWhomItHasForgotten) {
  client_table table(4, 8);
  client_record* const first = table.admit("a", start);
  const std::uint32_t before = first->incarnation;
  first->incarnation = table.next_incarnation();
  const std::uint32_t between = first->incarnation;
  EXPECT_NE(between, before);
  table.forget(*first);
  const std::uint32_t after = table.admit("a", start)->incarnation;
  EXPECT_NE(after, before);
  EXPECT_NE(after, between);
}

TEST(ClientTable, FindsAClientByItsTokenAndMovesItToAnotherConnection) {
  client_table table(4, 8);
  client_record* const client = table.admit("a", start);
  client_record* const other = table.admit("b", start);
  ASSERT_EQ(client->token.size(), 32U);
  EXPECT_NE(client->token, other->token);
  ASSERT_EQ(table.find_token(client->token, ""), client);
  table.move(*client, "c");
  EXPECT_EQ(table.find("a"), nullptr);
  EXPECT_EQ(table.find("c"), client);
  EXPECT_EQ(client->identity, "c");
  EXPECT_EQ(table.admit("c", start + seconds{1}), client);
  EXPECT_EQ(table.size(), 2U);
}

TEST(ClientTable, LeavesNobodyBehindWhereAClientMovesTo) {
  client_table table(4, 8);
  client_record* const client = table.admit("a", start);
  client_record* const there = table.admit("b", start);
  table.move(*client, "b");
  EXPECT_EQ(table.find("b"), client);
  EXPECT_EQ(there->identity, "");
  table.forget(*there);
  EXPECT_EQ(table.find("b"), client);
  EXPECT_EQ(table.size(), 1U);
}

TEST(ClientTable, KnowsATokenOnlyWholeAndWithItsKeyAndUntilItIsRevoked) {
  client_table table(4, 8);
  client_record* const client = table.admit("a", start);
  client->user = "ann's key";
  std::string nearly = client->token;
  nearly.back() = nearly.back() == '0' ? '1' : '0';
  for (const std::string& wrong : {std::string(), nearly, client->token.substr(0, 16), client->token + "0"}) {
    EXPECT_EQ(table.find_token(wrong, "ann's key"), nullptr) << wrong;
  }
  EXPECT_EQ(table.find_token(client->token, ""), nullptr);
  EXPECT_EQ(table.find_token(client->token, "bob's key"), nullptr);
  const std::string token = client->token;
  EXPECT_EQ(table.find_token(token, "ann's key"), client);
  table.revoke(*client);
  EXPECT_EQ(table.find_token(token, "ann's key"), nullptr);
  client->gone = true;
  EXPECT_NE(table.admit("a", start)->token, token) << "who comes again over the same connection has another one";
}

TEST(ClientTable, ForgetsATokenWithItsClient) {
  client_table table(4, 8);
  client_record* const client = table.admit("a", start);
  const std::string token = client->token;
  table.forget(*client);
  EXPECT_EQ(table.find_token(token, ""), nullptr);
}

TEST(ClientTable, MissesFirstOfTheLostWhoHasNothingAndThenWhoIsLostForLongest) {
  client_table table(8, 8);
  const auto lost = [&](const char* name, seconds since) {
    client_record* const client = table.admit(name, start);
    client->lost_since = start + since;
    return client;
  };
  client_record* const busy = lost("busy", seconds{1});
  client_record* const open = lost("with a session", seconds{2});
  client_record* const late = lost("late", seconds{4});
  client_record* const early = lost("early", seconds{3});
  (void)table.admit("connected", start);
  for (client_record* const next : {early, late, busy, open}) {
    ASSERT_EQ(table.most_lost([&](const client_record& each) { return &each == open || &each == busy; }), next);
    next->gone = true;
  }
  EXPECT_EQ(table.most_lost([](const client_record& /*each*/) { return false; }), nullptr);
}

TEST(ClientTable, EndsAGraceWhenItsTimeHasComeAndNotOfWhoCameBack) {
  client_table table(8, 8);
  client_record* const lost = table.admit("lost", start);
  lost->lost_since = start;
  EXPECT_EQ(table.lost_by(start - seconds{1}), nullptr);
  EXPECT_EQ(table.lost_by(start), lost);
  table.move(*lost, "again");
  EXPECT_EQ(table.lost_by(start + seconds{100}), nullptr);
}

TEST(ClientTable, ForgetsOnlyTheSilent) {
  client_table table(4, 8);
  (void)table.admit("silent", start);
  (void)table.admit("lively", start + seconds{5});
  client_record* const found = table.forgettable(start + seconds{1});
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->identity, "silent");
  table.forget(*found);
  EXPECT_EQ(table.forgettable(start + seconds{1}), nullptr);
}

TEST(ClientTable, ForgetsTheGoneAtOnce) {
  client_table table(4, 8);
  table.admit("gone", start)->gone = true;
  EXPECT_NE(table.forgettable(start - seconds{100}), nullptr);
}

TEST(ClientTable, KeepsWhomARequestRefersTo) {
  client_table table(4, 8);
  client_record* const busy = table.admit("busy", start);
  busy->gone = true;
  busy->references = 1;
  EXPECT_EQ(table.forgettable(start + seconds{100}), nullptr);
  busy->references = 0;
  EXPECT_EQ(table.forgettable(start + seconds{100}), busy);
}

}  // namespace
}  // namespace penstock
