#include "daemon/request/fair_queue.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/request/clients.hpp"

namespace penstock {
namespace {

inline constexpr std::size_t quantum = 1000;

// Clients with requests of any size in one queue, and what each was served.
class fair_queue_rig : public ::testing::Test {
 protected:
  client_record& client(std::uint32_t place) {
    while (place >= clients_.size()) {
      const auto next = static_cast<std::uint32_t>(clients_.size());
      clients_.push_back(std::make_unique<client_record>(next, std::to_string(next), 1U));
    }
    return *clients_[place];
  }
  request& push(std::uint32_t from, std::size_t bytes) {
    request& made = pool_.emplace_back();
    made.client = &client(from);
    made.id = pool_.size();
    made.bytes = bytes;
    queue_.push(made);
    return made;
  }
  request& serve() {
    request& next = *queue_.first();
    queue_.take(next);
    served_[next.client->index] += next.bytes;
    return next;
  }
  // Clients that have requests of these sizes without end are served until one has had so many bytes.
  void serve_backlogs(const std::vector<std::size_t>& sizes, std::size_t bytes, std::size_t bound) {
    for (std::uint32_t from = 0; from < sizes.size(); ++from) {
      push(from, sizes[from]);
      push(from, sizes[from]);
    }
    while (served_[0] < bytes) {
      const std::uint32_t from = serve().client->index;
      push(from, sizes[from]);
      for (std::uint32_t one = 0; one < sizes.size(); ++one) {
        for (std::uint32_t other = 0; other < one; ++other) {
          const auto [least, most] = std::minmax(served_[one], served_[other]);
          ASSERT_LE(most - least, bound) << "clients " << one << " and " << other;
        }
      }
    }
  }

  std::vector<std::unique_ptr<client_record>> clients_;
  std::deque<request> pool_;
  fair_queue queue_{quantum};
  std::map<std::uint32_t, std::size_t> served_;
};

class FairQueue : public fair_queue_rig {};

TEST_F(FairQueue, IsEmptyAtFirst) {
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.first(), nullptr);
  EXPECT_EQ(queue_.oldest_of(client(3)), nullptr);
}

TEST_F(FairQueue, KeepsAClientsOwnOrder) {
  for (const std::size_t bytes : {10U, 5000U, 1U, 999U, 1000U, 1001U}) {
    push(0, bytes);
  }
  for (std::uint64_t id = 1; id <= 6; ++id) {
    EXPECT_EQ(serve().id, id);
  }
  EXPECT_TRUE(queue_.empty());
}

TEST_F(FairQueue, TakesTurnsBetweenClientsThatSendAQuantumEach) {
  for (std::uint32_t from = 0; from < 3; ++from) {
    push(from, quantum);
    push(from, quantum);
  }
  for (const std::uint32_t expected : {0U, 1U, 2U, 0U, 1U, 2U}) {
    EXPECT_EQ(serve().client->index, expected);
  }
}

// Within a turn of their own, by the bound of the paper: the quantum and the largest request.
TEST_F(FairQueue, GivesEveryoneAsManyBytesWhateverTheSizeOfTheirRequests) {
  serve_backlogs({10, 999, 333, 1000, 501}, 200 * quantum, 2 * quantum);
}

TEST_F(FairQueue, AfterWholeRoundsNobodyIsAheadByAQuantum) {
  const std::vector<std::size_t> sizes{7, 999, 640, 1000};
  for (std::uint32_t from = 0; from < sizes.size(); ++from) {
    for (int backlog = 0; backlog < 400; ++backlog) {
      push(from, sizes[from]);
    }
  }
  std::uint32_t last = 3;
  for (int served = 0; served < 900; ++served) {
    const std::uint32_t now = queue_.first()->client->index;
    if (last == 3 && now == 0 && served > 0) {
      for (const auto& [from, bytes] : served_) {
        EXPECT_LT(served_[3] - bytes, quantum) << "client " << from << ": client 3 always has its whole quantum";
      }
    }
    last = serve().client->index;
    if (queue_.oldest_of(client(0)) == nullptr || queue_.oldest_of(client(3)) == nullptr) {
      break;
    }
  }
}

TEST_F(FairQueue, OneThatFloodsWaitsBehindItselfAlone) {
  for (int flood = 0; flood < 1000; ++flood) {
    push(0, 100);
  }
  request& modest = push(1, 100);
  int before = 0;
  while (&serve() != &modest) {
    ++before;
  }
  EXPECT_LE(before, 10) << "a quantum's worth";
}

TEST_F(FairQueue, LetsARequestLargerThanManyQuantaThrough) {
  serve_backlogs({20 * quantum + 1, 10}, 100 * quantum, 22 * quantum);
  EXPECT_GE(served_[1], 70 * quantum);
}

TEST_F(FairQueue, LetsAHugeRequestThroughWhenItIsAlone) {
  push(0, std::size_t{1} << 32U);
  EXPECT_EQ(serve().id, 1U);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(FairQueue, LetsARequestWithoutBytesThrough) {
  push(0, 0);
  EXPECT_EQ(serve().id, 1U);
}

TEST_F(FairQueue, KeepsItsFirstUntilOneLeaves) {
  push(0, 3 * quantum);
  push(1, 10);
  request* const first = queue_.first();
  push(2, 10);
  push(1, 10);
  EXPECT_EQ(queue_.first(), first);
  EXPECT_EQ(queue_.first(), first);
}

TEST_F(FairQueue, WhoComesBackWithNothingSavedUpHasNothingSavedUp) {
  push(0, 1);
  serve();  // leaves with most of its quantum unused
  push(0, quantum);
  for (int more = 0; more < 5; ++more) {
    push(0, quantum);
    push(1, quantum);
  }
  EXPECT_EQ(serve().client->index, 1U) << "client 0 has had its turn before the round";
  EXPECT_EQ(serve().client->index, 0U);
}

TEST_F(FairQueue, WhoHadNothingWaitingComesBeforeTheRound) {
  for (std::uint32_t from = 0; from < 4; ++from) {
    push(from, quantum);
    push(from, quantum);
    push(from, quantum);
  }
  for (int turn = 0; turn < 5; ++turn) {
    serve();
  }
  request& modest = push(4, 10);
  EXPECT_EQ(&serve(), &modest);
}

TEST_F(FairQueue, WhoComesBackAtOnceDoesNotStarveTheRound) {
  for (int backlog = 0; backlog < 100; ++backlog) {
    push(0, quantum);
  }
  serve();
  for (int again = 0; again < 40; ++again) {
    push(1, quantum);
    serve();
    serve();
  }
  EXPECT_EQ(served_[0], 41 * quantum);
  EXPECT_EQ(served_[1], 40 * quantum);
}

TEST_F(FairQueue, FindsTheOldestOfEachClient) {
  request& first = push(0, 10);
  request& other = push(1, 10);
  request& second = push(0, 10);
  EXPECT_EQ(queue_.oldest_of(client(0)), &first);
  EXPECT_EQ(queue_.oldest_of(client(1)), &other);
  queue_.remove(first);
  EXPECT_EQ(queue_.oldest_of(client(0)), &second);
  queue_.remove(second);
  EXPECT_EQ(queue_.oldest_of(client(0)), nullptr);
  EXPECT_EQ(queue_.size(), 1U);
}

// Deficit round robin with the new and the old queues of RFC 8290, with lists that are searched.
class model {
 public:
  void push(std::uint32_t from, std::uint64_t id, std::size_t bytes) {
    flow* found = find(from);
    if (found == nullptr) {
      found = &fresh_.emplace_back(flow{from, 0, false, {}});
    }
    found->waiting.emplace_back(id, bytes);
    ++size_;
  }
  std::uint64_t first() {
    for (;;) {
      const bool is_fresh = !fresh_.empty();
      std::list<flow>& list = is_fresh ? fresh_ : old_;
      flow& now = list.front();
      if (!now.waiting.empty()) {
        if (!std::exchange(now.visited, true)) {
          now.deficit += quantum;
        }
        if (now.waiting.front().second <= now.deficit) {
          return now.waiting.front().first;
        }
      } else if (!is_fresh) {
        list.pop_front();
        continue;
      }
      now.visited = false;
      old_.splice(old_.end(), list, list.begin());
    }
  }
  void take(std::uint32_t from, std::uint64_t id) {
    flow& of = *find(from);
    of.deficit -= of.waiting.front().second;
    remove(from, id);
  }
  void remove(std::uint32_t from, std::uint64_t id) {
    flow& of = *find(from);
    std::erase_if(of.waiting, [id](const auto& each) { return each.first == id; });
    of.deficit = of.waiting.empty() ? 0 : of.deficit;
    --size_;
  }
  [[nodiscard]] bool empty() const { return size_ == 0; }

 private:
  struct flow {
    std::uint32_t from;
    std::size_t deficit;
    bool visited;
    std::deque<std::pair<std::uint64_t, std::size_t>> waiting;
  };
  flow* find(std::uint32_t from) {
    for (std::list<flow>* list : {&fresh_, &old_}) {
      const auto found =
          std::find_if(list->begin(), list->end(), [from](const flow& each) { return each.from == from; });
      if (found != list->end()) {
        return &*found;
      }
    }
    return nullptr;
  }
  std::list<flow> fresh_;
  std::list<flow> old_;
  std::size_t size_ = 0;
};

class FairQueueAndModel : public FairQueue, public ::testing::WithParamInterface<std::uint64_t> {};

TEST_P(FairQueueAndModel, AgreeOnEveryTurnInAnyOrderOfEvents) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  std::mt19937_64 random(GetParam());
  model expected;
  std::vector<request*> inside;
  const auto forget = [&](const request& gone) { std::erase(inside, &gone); };
  for (int step = 0; step < 20000; ++step) {
    const std::uint64_t what = random() % 8;
    if (inside.empty() || (what < 4 && inside.size() < 200)) {
      const auto from = static_cast<std::uint32_t>(random() % 7);
      const std::size_t bytes = random() % 10 == 0 ? random() % (30 * quantum) : random() % (from * 200 + 1);
      request& made = push(from, bytes);
      expected.push(from, made.id, bytes);
      inside.push_back(&made);
    } else if (what < 7) {
      request* const first = queue_.first();
      ASSERT_NE(first, nullptr);
      ASSERT_EQ(first->id, expected.first()) << "step " << step;
      expected.take(first->client->index, first->id);
      queue_.take(*first);
      forget(*first);
    } else {
      request& any = *inside[random() % inside.size()];
      expected.remove(any.client->index, any.id);
      queue_.remove(any);
      forget(any);
    }
    ASSERT_EQ(queue_.size(), inside.size());
    ASSERT_EQ(queue_.empty(), expected.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FairQueueAndModel, ::testing::Range<std::uint64_t>(1, 9));

class HeavyClients : public fair_queue_rig {};

TEST_F(HeavyClients, ArePassedOverWhileTheyAreHeldBack) {
  for (int one = 0; one < 40; ++one) {
    push(0, quantum);
  }
  serve();
  request& light = push(1, quantum);
  push(2, quantum);
  serve();
  serve();
  request& again = push(1, quantum);
  EXPECT_TRUE(queue_.heavy(*queue_.oldest_of(client(0))));
  EXPECT_FALSE(queue_.heavy(again));
  EXPECT_NE(&light, &again);
  EXPECT_EQ(queue_.first(false), &again);
}

TEST_F(HeavyClients, LeaveNoFirstWhenAllAreHeldBack) {
  for (std::uint32_t from = 0; from < 3; ++from) {
    for (int one = 0; one < 20; ++one) {
      push(from, quantum);
    }
  }
  EXPECT_EQ(queue_.first(false), nullptr);
  EXPECT_NE(queue_.first(), nullptr);
}

TEST_F(HeavyClients, HaveMoreThanSixteenTurnsWaiting) {
  for (int one = 0; one < 17; ++one) {
    push(0, quantum);
  }
  EXPECT_EQ(queue_.first(false), nullptr);
  serve();
  EXPECT_NE(queue_.first(false), nullptr);
}

TEST_F(HeavyClients, AreServedEveryRequestOnceWheneverTheyAreHeldBack) {
  std::mt19937 random(11);
  std::size_t pushed = 0;
  std::size_t served = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      push(random() % 3 == 0 ? static_cast<std::uint32_t>(random() % 6) : 0U, 1 + random() % quantum);
      ++pushed;
    } else if (request* const next = queue_.first(random() % 2 == 0)) {
      queue_.take(*next);
      ++served;
    }
  }
  for (; queue_.first() != nullptr; ++served) {
    queue_.take(*queue_.first());
  }
  EXPECT_EQ(served, pushed);
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace penstock
