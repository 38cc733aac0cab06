#include "daemon/socket/message_memory.hpp"

#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace penstock {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t message = std::size_t{1} << 20U;
constexpr int in_flight = 8;

long faults() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

// As ZeroMQ does it: a thread that receives takes the memory, whoever has read the messages gives it back.
void pass_messages(int rounds) {
  std::thread([rounds] {
    for (int round = 0; round < rounds; ++round) {
      std::vector<std::vector<char>> received;
      for (int number = 0; number < in_flight; ++number) {
        received.emplace_back(message, '\1');
      }
      std::thread([&received] { received.clear(); }).join();
    }
  }).join();
}

TEST(MessageMemory, IsFaultedInOnceInsteadOfForEachMessage) {
  constexpr int rounds = 50;
  constexpr long pages_of_all = long{rounds} * in_flight * (message / page);
  long before = faults();
  pass_messages(rounds);
  EXPECT_GT(faults() - before, pages_of_all / 2) << "malloc keeps the memory by itself: there is nothing to do here";

  keep_message_memory();
  before = faults();
  pass_messages(rounds);
  EXPECT_LT(faults() - before, pages_of_all / 10);
}

}  // namespace
}  // namespace penstock
