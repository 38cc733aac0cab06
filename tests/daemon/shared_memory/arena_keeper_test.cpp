#include "daemon/shared_memory/arena_keeper.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/daemon/shared_memory/pinning_device.hpp"

namespace penstock {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

/// A shard that takes every arena, or none, and gives back what it is told to.
class one_shard : public arena_tenants {
 public:
  device& device_of(std::uint32_t /*shard*/) override { return on; }
  void admit(const arena_order& by, client_arena& what, std::function<void(bool)> done) override {
    const std::lock_guard lock(mutex_);
    numbers_.insert(what.number());
    if (by.client == "stranger") {
      what.drop();
      done(false);
      return;
    }
    admitted_.push_back(&what);
    done(true);
  }
  void evict(std::uint32_t /*shard*/, std::uint32_t arena) override {
    const std::lock_guard lock(mutex_);
    for (client_arena*& each : admitted_) {
      if (each != nullptr && each->number() == arena) {
        std::exchange(each, nullptr)->drop();
      }
    }
  }
  /// The last one that it took, with a use for whoever asks.
  client_arena& used() {
    const std::lock_guard lock(mutex_);
    admitted_.back()->use();
    return *admitted_.back();
  }
  /// How many different numbers the arenas had that it was to take.
  std::size_t numbers() {
    const std::lock_guard lock(mutex_);
    return numbers_.size();
  }

  testing::pinning_device on;

 private:
  std::mutex mutex_;
  std::vector<client_arena*> admitted_;
  std::set<std::uint32_t> numbers_;
};

/// What a client does at the Unix socket.
class visitor {
 public:
  visitor(const std::string& where, const std::string& ticket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, where.data(), where.size());
    address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + where.size());
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(socket_, static_cast<const sockaddr*>(static_cast<const void*>(&address)), size), 0);
    EXPECT_EQ(::send(socket_, ticket.data(), ticket.size(), MSG_NOSIGNAL), static_cast<ssize_t>(ticket.size()));
  }
  ~visitor() { leave(); }
  visitor(const visitor&) = delete;
  visitor& operator=(const visitor&) = delete;

  void leave() {
    if (socket_ >= 0) {
      ::close(std::exchange(socket_, -1));
    }
  }
  /// The size of the arena that it gets, 0 when the connection ends instead.
  std::uint64_t receive() {
    std::array<std::byte, 16> record{};
    const ssize_t got = ::recv(socket_, record.data(), record.size(), MSG_WAITALL);
    std::uint64_t size = 0;
    std::memcpy(&size, record.data() + 8, sizeof size);
    return got == static_cast<ssize_t>(record.size()) ? size : 0;
  }
  /// The same, and keeps the descriptor of it, which is the caller's.
  int receive_descriptor() {
    std::array<std::byte, 16> record{};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    iovec content{record.data(), record.size()};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    int descriptor = -1;
    if (::recvmsg(socket_, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) > 0 && CMSG_FIRSTHDR(&message) != nullptr) {
      std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    }
    return descriptor;
  }
  /// Whether the connection ends.
  bool ends() {
    std::byte one{};
    return ::recv(socket_, &one, 1, 0) == 0;
  }

 private:
  int socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

class ArenaKeeper : public ::testing::Test {
 protected:
  ArenaKeeper() { keeper_.start(); }

  std::string ticket(std::size_t bytes, const std::string& client = "ann") {
    return keeper_.issue({.shard = 0, .client = client, .incarnation = 0, .bytes = bytes});
  }
  bool until(std::size_t arenas) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (keeper_.in_use().arenas != arenas && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    return keeper_.in_use().arenas == arenas;
  }

  one_shard shard_;
  memory_budget memory_{64 * mebibyte};
  arena_keeper keeper_{
      {.max_bytes = 4 * mebibyte, .max_client_bytes = 3 * mebibyte, .socket = ""}, {}, shard_, memory_};
};

TEST_F(ArenaKeeper, LendsMemoryThatIsPinnedAndTakesItBackWhenTheConnectionEnds) {
  visitor ann(keeper_.socket(), ticket(mebibyte));
  EXPECT_EQ(ann.receive(), mebibyte);
  EXPECT_EQ(keeper_.in_use().bytes, mebibyte);
  EXPECT_EQ(shard_.on.pinned_bytes(), mebibyte);
  ann.leave();
  EXPECT_TRUE(until(0));
  EXPECT_EQ(keeper_.in_use().bytes, 0U);
  EXPECT_EQ(shard_.on.pinned_bytes(), 0U);
}

TEST_F(ArenaKeeper, KeepsMemoryPinnedAsLongAsARequestLiesInIt) {
  visitor ann(keeper_.socket(), ticket(mebibyte));
  ASSERT_EQ(ann.receive(), mebibyte);
  client_arena& used = shard_.used();
  ann.leave();
  visitor ben(keeper_.socket(), ticket(mebibyte));
  ASSERT_EQ(ben.receive(), mebibyte) << "by then the end of the first connection has been seen";
  EXPECT_EQ(keeper_.in_use().arenas, 2U);
  *used.at(0) = std::byte{1};
  used.drop();
  EXPECT_TRUE(until(1));
}

// Who names memory that has gone back names no other memory by that.
TEST_F(ArenaKeeper, GivesNoNumberASecondTime) {
  visitor stays(keeper_.socket(), ticket(mebibyte, "ben"));
  ASSERT_EQ(stays.receive(), mebibyte);
  constexpr std::size_t leases = 20;
  for (std::size_t each = 0; each < leases; ++each) {
    visitor ann(keeper_.socket(), ticket(mebibyte));
    ASSERT_EQ(ann.receive(), mebibyte);
    visitor refused(keeper_.socket(), ticket(mebibyte, "stranger"));
    ASSERT_TRUE(refused.ends());
    ann.leave();
    ASSERT_TRUE(until(1));
  }
  EXPECT_EQ(shard_.numbers(), 1 + 2 * leases);
}

TEST_F(ArenaKeeper, CountsWhatAClientKeepsAfterItsLease) {
  visitor ann(keeper_.socket(), ticket(3 * mebibyte));
  const int kept = ann.receive_descriptor();
  ASSERT_GE(kept, 0);
  ann.leave();
  EXPECT_TRUE(until(0));
  EXPECT_EQ(keeper_.in_use().bytes, 3 * mebibyte);
  EXPECT_EQ(shard_.on.pinned_bytes(), 0U);
  EXPECT_EQ(ticket(2 * mebibyte, "ben"), "") << "the pages are there still";
  const std::string small = ticket(mebibyte);
  visitor again(keeper_.socket(), small);
  EXPECT_TRUE(again.ends()) << "it has its share";
  ::close(kept);
  visitor ben(keeper_.socket(), ticket(mebibyte, "ben"));
  EXPECT_EQ(ben.receive(), mebibyte) << "and is looked at when somebody comes";
  EXPECT_EQ(keeper_.in_use().bytes, mebibyte);
}

TEST_F(ArenaKeeper, EndsTheConnectionWhenTheShardLetsGo) {
  visitor ann(keeper_.socket(), ticket(mebibyte));
  ASSERT_EQ(ann.receive(), mebibyte);
  shard_.evict(0, shard_.used().number());
  EXPECT_EQ(keeper_.in_use().arenas, 1U) << "a request lies in it";
  visitor ben(keeper_.socket(), ticket(mebibyte, "stranger"));
  EXPECT_TRUE(ben.ends());
}

TEST_F(ArenaKeeper, MakesNothingForAClientThatHasItsShare) {
  visitor ann(keeper_.socket(), ticket(2 * mebibyte));
  ASSERT_EQ(ann.receive(), 2 * mebibyte);
  visitor again(keeper_.socket(), ticket(2 * mebibyte));
  EXPECT_TRUE(again.ends());
  visitor ben(keeper_.socket(), ticket(2 * mebibyte, "ben"));
  EXPECT_EQ(ben.receive(), 2 * mebibyte);
}

TEST_F(ArenaKeeper, ServesWhoHasATicketHoweverManyWaitWithoutOne) {
  std::vector<std::unique_ptr<visitor>> idle;
  for (std::size_t each = 0; each < waiting_room::most; ++each) {
    idle.push_back(std::make_unique<visitor>(keeper_.socket(), ""));
  }
  visitor ann(keeper_.socket(), ticket(mebibyte));
  EXPECT_EQ(ann.receive(), mebibyte);
  EXPECT_TRUE(idle.front()->ends()) << "who has waited longest makes room";
}

TEST_F(ArenaKeeper, GivesNothingWithoutATicketOrRoomOrPinning) {
  visitor without(keeper_.socket(), std::string(32, '0'));
  EXPECT_TRUE(without.ends());
  EXPECT_EQ(ticket(5 * mebibyte), "");
  const std::string two[] = {ticket(3 * mebibyte), ticket(3 * mebibyte)};
  visitor ann(keeper_.socket(), two[0]);
  ASSERT_EQ(ann.receive(), 3 * mebibyte);
  visitor ben(keeper_.socket(), two[1]);
  EXPECT_TRUE(ben.ends());
  shard_.on.refuses = true;
  visitor cid(keeper_.socket(), ticket(mebibyte));
  EXPECT_TRUE(cid.ends());
  EXPECT_EQ(keeper_.in_use().arenas, 1U);
}

}  // namespace
}  // namespace penstock
