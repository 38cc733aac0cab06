#include "daemon/request/clients.hpp"

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

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

// The factor's inverse modulo 2^64, by Newton's iteration: with it, ids are made that hash to any place.
constexpr std::uint64_t factor = 0x9E3779B97F4A7C15ULL;
constexpr std::uint64_t inverse_of(std::uint64_t odd) {
  std::uint64_t inverse = odd;
  for (int step = 0; step < 6; ++step) {
    inverse *= 2 - odd * inverse;
  }
  return inverse;
}
static_assert(factor * inverse_of(factor) == 1);

std::uint64_t counting(std::uint64_t step, std::mt19937_64& /*random*/) {
  return step;
}
std::uint64_t scattered(std::uint64_t /*step*/, std::mt19937_64& random) {
  return random();
}
std::uint64_t high_bits_only(std::uint64_t step, std::mt19937_64& /*random*/) {
  return step << 56U | step << 40U;
}
// All of them want the last place of the table, so that every run wraps round its end.
std::uint64_t colliding(std::uint64_t step, std::mt19937_64& /*random*/) {
  return (0x7FFFFFFF00000000ULL | (step & 0xFFFFFFFFU)) * inverse_of(factor);
}
// They want three neighbouring places round the end of the table.
std::uint64_t crowded(std::uint64_t step, std::mt19937_64& /*random*/) {
  return (((step % 3 + 0xFFFFFFFFULL - 1) << 32U) | (step * 7919 & 0xFFFFFFFFU)) * inverse_of(factor);
}

struct id_row {
  const char* name;
  std::uint64_t (*make)(std::uint64_t step, std::mt19937_64& random);
};

class RequestIndex : public ::testing::TestWithParam<id_row> {};

TEST_P(RequestIndex, AgreesWithAnUnorderedMap) {
  constexpr std::size_t most = 64;  // more than it begins with
  std::mt19937_64 random(7);
  request_index index(most);
  std::unordered_map<std::uint64_t, request*> model;
  std::vector<request> pool(most);
  std::vector<request*> outside;
  for (request& each : pool) {
    outside.push_back(&each);
  }
  std::vector<std::uint64_t> ids;
  for (std::uint64_t step = 0; step < 20000; ++step) {
    if (!outside.empty() && (model.empty() || random() % 2 == 0)) {
      const std::uint64_t id = GetParam().make(step, random);
      ASSERT_EQ(index.find(id), nullptr) << "an id that was never inserted";
      request* const one = outside.back();
      outside.pop_back();
      one->id = id;
      index.insert(*one);
      model.emplace(id, one);
      ids.push_back(id);
    } else {
      const std::size_t at = random() % ids.size();
      const std::uint64_t id = ids[at];
      index.erase(*model.at(id));
      outside.push_back(model.at(id));
      model.erase(id);
      ids[at] = ids.back();
      ids.pop_back();
      ASSERT_EQ(index.find(id), nullptr) << "an id that was erased";
    }
    if (step % 16 == 0) {
      for (const auto& [id, one] : model) {
        ASSERT_EQ(index.find(id), one);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ids, RequestIndex,
                         ::testing::Values(id_row{"Counting", counting}, id_row{"Scattered", scattered},
                                           id_row{"HighBitsOnly", high_bits_only}, id_row{"Colliding", colliding},
                                           id_row{"Crowded", crowded}),
                         [](const ::testing::TestParamInfo<id_row>& row) { return std::string(row.param.name); });

TEST(RequestIndexOfOne, HoldsOne) {
  request_index index(1);
  request only;
  only.id = 12;
  index.insert(only);
  EXPECT_EQ(index.find(12), &only);
  EXPECT_EQ(index.find(13), nullptr);
  index.erase(only);
  EXPECT_EQ(index.find(12), nullptr);
}

TEST(RequestIndexOfMore, KeepsWhatItHoldsWhenThereIsRoomForMore) {
  std::vector<request> pool(300);
  request_index index(100);
  for (std::size_t each = 0; each < pool.size(); ++each) {
    if (each == 100) {
      index.reserve(pool.size());
    }
    pool[each].id = 7 * each;
    index.insert(pool[each]);
  }
  for (request& each : pool) {
    EXPECT_EQ(index.find(each.id), &each);
    index.erase(each);
  }
  EXPECT_EQ(index.any(), nullptr);
}

}  // namespace
}  // namespace penstock
