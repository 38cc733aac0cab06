#include "daemon/settings/machine_fit.hpp"

#include <array>
#include <chrono>
#include <cstddef>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using namespace std::chrono_literals;

TEST(MachineFit, GivesAShardMoreIoThreadsWhereThereAreProcessors) {
  for (const auto& [shards, processors, threads] : {std::array<std::size_t, 3>{1, 1, 1},
                                                    {1, 2, 1},
                                                    {1, 7, 1},
                                                    {1, 8, 2},
                                                    {1, 16, 4},
                                                    {1, 128, 4},
                                                    {4, 16, 1},
                                                    {4, 64, 4},
                                                    {8, 2, 1},
                                                    {0, 8, 2}}) {
    EXPECT_EQ(fitted({}, shards, processors).daemon.io_threads, static_cast<int>(threads))
        << shards << " shards, " << processors << " processors";
  }
}

TEST(MachineFit, LeavesANumberOfIoThreadsThatIsGiven) {
  settings given;
  given.daemon.io_threads = 3;
  EXPECT_EQ(fitted(given, 1, 1).daemon.io_threads, 3);
}

TEST(MachineFit, LetsAShardSpinOnlyWhereNobodyWaitsForItsProcessor) {
  EXPECT_EQ(fitted({}, 1, 4).daemon.spin, 100us);
  EXPECT_EQ(fitted({}, 1, 3).daemon.spin, 0us);
  EXPECT_EQ(fitted({}, 2, 7).daemon.spin, 0us);
}

TEST(MachineFit, LetsAShardPollByItselfOnlyWithAProcessorToSpare) {
  for (const completion_mode asked : {completion_mode::callback, completion_mode::poll, completion_mode::automatic}) {
    settings given;
    given.wheel.completion = asked;
    EXPECT_EQ(fitted(given, 2, 4).wheel.completion, asked);
    EXPECT_EQ(fitted(given, 2, 3).wheel.completion,
              asked == completion_mode::automatic ? completion_mode::callback : asked);
  }
}

}  // namespace
}  // namespace penstock
