#include "daemon/request/tuning.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/pipeline/check.hpp"
#include "daemon/request/clients.hpp"
#include "tests/daemon/pipeline/declarations.hpp"
#include "tests/daemon/pipeline/fake_device.hpp"
#include "tests/support/start.hpp"

namespace penstock {
namespace {

using testing::start;
using changes = std::vector<wire::number_setting>;
using doubles = std::vector<double>;

class Tuning : public ::testing::Test {
 protected:
  void SetUp() override { tuning_.add(plan_); }

  session_record* open(const char* name) {
    session_record* const opened = table_.open(ann_, plan_, name, start);
    tuning_.begin(*opened);
    return opened;
  }

  static plan tuned_plan(device& target) {
    stage_declaration gain = stage("gain", "affine", {});
    gain.tunable = {"a", "b"};
    pipeline_declaration declared = pipeline({std::move(gain)});
    declared.input = {element_type::f32, {8}, false};
    return compile_plan(check_pipeline(std::move(declared)), 0, target);
  }

  fake_device device_;
  const plan plan_ = tuned_plan(device_);
  client_record ann_{0, "ann", 8};
  session_table table_{4, std::chrono::seconds{60}, 1};
  tuning tuning_{table_};
};

TEST_F(Tuning, SharesThePipelinesNumbersWithSessionsThatHaveNone) {
  const session_record* const follows = open("follows");
  session_record* const has_own = open("has own");
  ASSERT_TRUE(tuning_.set(*has_own, changes{{"gain", "b", 3.0}}).accepted());
  ASSERT_TRUE(tuning_.set(plan_, changes{{"gain", "a", 2.0}}, false).accepted());
  EXPECT_EQ(*tuning_.of(plan_), (doubles{2.0, 0.0}));
  EXPECT_EQ(follows->numbers, tuning_.of(plan_)) << "not a copy: there may be many";
  EXPECT_EQ(*has_own->numbers, (doubles{2.0, 3.0}));
  ASSERT_TRUE(tuning_.set(plan_, changes{{"gain", "b", 1.0}}, true).accepted());
  EXPECT_EQ(has_own->numbers, tuning_.of(plan_));
}

TEST_F(Tuning, LeavesANumberThatAReloadDoesNotGiveToTheOthers) {
  stage_declaration events = stage("events", "detect", {}, {{"high", 2.0}, {"low", 0.5}});
  events.tunable = {"high", "low"};
  pipeline_declaration declared = pipeline({std::move(events)});
  declared.input = {element_type::f32, {8}, false};
  const plan found = compile_plan(check_pipeline(std::move(declared)), 1, device_);
  tuning_.add(found);
  tuning_.adopt(found, changes{{"events", "low", std::nullopt}});
  EXPECT_EQ(*tuning_.of(found), (doubles{2.0, 2.0}));
  ASSERT_TRUE(tuning_.set(found, changes{{"events", "high", 1.0}}, false).accepted());
  EXPECT_EQ(*tuning_.of(found), (doubles{1.0, 1.0}));
  tuning_.adopt(found, changes{{"events", "low", 0.75}});
  EXPECT_EQ(*tuning_.of(found), (doubles{1.0, 0.75}));
}

TEST_F(Tuning, HoldsInASessionWhatDoesNotGoWithItsOwnNumberUntilAChangeFits) {
  stage_declaration gain = stage("gain", "affine", {});
  gain.tunable = {"a"};
  stage_declaration events = stage("events", "detect", {"gain"}, {{"high", 1.0}, {"low", 0.5}});
  events.tunable = {"high", "low"};
  pipeline_declaration declared = pipeline({std::move(gain), std::move(events)});
  declared.input = {element_type::f32, {8}, false};
  const plan found = compile_plan(check_pipeline(std::move(declared)), 1, device_);
  tuning_.add(found);
  session_record* const own = table_.open(ann_, found, "own", start);
  tuning_.begin(*own);
  ASSERT_TRUE(tuning_.set(*own, changes{{"events", "low", 0.9}}).accepted());
  for (const bool everywhere : {false, true}) {
    ASSERT_TRUE(tuning_.set(found, changes{{"events", "high", 0.6}}, everywhere).accepted());
    EXPECT_EQ(own->numbers->back(), 0.9);
    EXPECT_EQ((*own->numbers)[own->numbers->size() - 2], everywhere ? 5.0 : 1.0) << "0.6 is below its low";
    ASSERT_TRUE(tuning_.set(found, changes{{"gain", "a", everywhere ? 3.0 : 2.0}}, false).accepted());
    EXPECT_EQ(own->numbers->front(), everywhere ? 3.0 : 2.0) << "of another stage";
    ASSERT_TRUE(tuning_.set(*own, changes{{"gain", "a", 7.0}}).accepted()) << "of another stage too";
    ASSERT_TRUE(tuning_.set(*own, changes{{"gain", "a", std::nullopt}}).accepted());
    ASSERT_TRUE(tuning_.set(found, changes{{"events", "high", 5.0}}, false).accepted());
    EXPECT_EQ((*own->numbers)[own->numbers->size() - 2], 5.0);
  }
  ASSERT_TRUE(tuning_.set(found, changes{{"events", "high", 0.7}}, false).accepted());
  ASSERT_TRUE(tuning_.set(*own, changes{{"events", "low", std::nullopt}}).accepted());
  EXPECT_EQ(own->numbers->back(), 0.5);
  EXPECT_EQ((*own->numbers)[own->numbers->size() - 2], 0.7) << "nothing is held any more";
}

}  // namespace
}  // namespace penstock
