#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/request/client_table.hpp"

namespace penstock {
namespace {

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
