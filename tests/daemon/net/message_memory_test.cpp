#include "daemon/net/message_memory.hpp"

#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace penstock {
namespace {

constexpr std::size_t page = 4096;

using clock = std::chrono::steady_clock;

std::size_t resident() {
  std::size_t all = 0;
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * page;
}

long faults() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

// As ZeroMQ does it: a thread that receives takes the memory, whoever has read the messages gives it back.
void pass_messages(int rounds, int in_flight, std::size_t bytes) {
  std::thread([=] {
    for (int round = 0; round < rounds; ++round) {
      std::vector<std::vector<char>> received;
      for (int number = 0; number < in_flight; ++number) {
        received.emplace_back(bytes, '\1');
      }
      std::thread([&received] { received.clear(); }).join();
    }
  }).join();
}

TEST(MessageMemory, IsFaultedInOnceInsteadOfForEachMessage) {
  constexpr int rounds = 50;
  constexpr int in_flight = 8;
  constexpr std::size_t message = std::size_t{1} << 20U;
  constexpr long pages_of_all = long{rounds} * in_flight * (message / page);
  long before = faults();
  pass_messages(rounds, in_flight, message);
  EXPECT_GT(faults() - before, pages_of_all / 2) << "malloc keeps the memory by itself: there is nothing to do here";

  keep_message_memory();
  before = faults();
  pass_messages(rounds, in_flight, message);
  EXPECT_LT(faults() - before, pages_of_all / 10);

  // Of so large ones, three to a heap, each round empties every heap.
  constexpr std::size_t large = 16 * message;
  before = faults();
  pass_messages(rounds, in_flight, large);
  EXPECT_LT(faults() - before, long{rounds} * in_flight * (large / page) / 10);
}

TEST(MessageMemory, GoesBackOnceThereWereNoneForAWhile) {
  keep_message_memory();
  const clock::time_point start = clock::now();
  EXPECT_FALSE(return_message_memory(start + std::chrono::hours{1})) << "there were none";
  const std::size_t before = resident();
  pass_messages(1, 32, std::size_t{16} << 20U);
  const std::size_t kept = resident() - before;
  EXPECT_GT(kept, std::size_t{300} << 20U);
  note_message_memory(start);
  note_message_memory(start + std::chrono::seconds{5});
  EXPECT_FALSE(return_message_memory(start + message_memory_kept));
  EXPECT_GT(resident() - before, kept / 2);
  EXPECT_TRUE(return_message_memory(start + std::chrono::seconds{5} + message_memory_kept));
  EXPECT_LT(resident(), before + kept / 4) << "but for the end of a heap";
  EXPECT_FALSE(return_message_memory(start + std::chrono::hours{1})) << "once is enough";
}

}  // namespace
}  // namespace penstock
