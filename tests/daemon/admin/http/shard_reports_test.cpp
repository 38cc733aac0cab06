#include "daemon/admin/http/shard_reports.hpp"

#include <gtest/gtest.h>

#include "tests/daemon/admin/http/made_up_report.hpp"

namespace penstock::testing {
namespace {

using namespace std::chrono_literals;

class ShardReports : public ::testing::Test {
 protected:
  void ask() {
    reports_.ask([this](const auto& shards) {
      ++answered_;
      last_ = shards;
    });
  }
  void answer(shard_answers with) { std::exchange(pending_, nullptr)(std::move(with)); }

  time_point now_{1h};
  int asked_ = 0;
  int answered_ = 0;
  std::shared_ptr<const shard_answers> last_;
  std::function<void(shard_answers)> pending_;
  shard_reports reports_{[this](auto done) {
                           ++asked_;
                           pending_ = std::move(done);
                         },
                         [this] { return now_; }};
};

TEST_F(ShardReports, AskTheShardsOnceForAllWhoWait) {
  ask();
  ask();
  ask();
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(answered_, 0);
  answer({made_up_report(0, 7)});
  EXPECT_EQ(answered_, 3);
  EXPECT_EQ(last_->at(0)->counters.requests.results, 7U);
}

TEST_F(ShardReports, GiveTheSameAnswerForAShortTime) {
  ask();
  answer({made_up_report(0, 7)});
  now_ += 99ms;
  ask();
  EXPECT_EQ(answered_, 2);
  EXPECT_EQ(asked_, 1);
  now_ += 1ms;
  ask();
  EXPECT_EQ(asked_, 2);
  answer({made_up_report(0, 8)});
  EXPECT_EQ(last_->at(0)->counters.requests.results, 8U);
}

TEST_F(ShardReports, AskAgainAtOnceWhenAShardWasSilent) {
  ask();
  answer({std::nullopt});
  EXPECT_EQ(answered_, 1);
  ask();
  EXPECT_EQ(asked_, 2);
}

}  // namespace
}  // namespace penstock::testing
