#include "daemon/shm/server.hpp"

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

#include "tests/daemon/shm/pinning_device.hpp"

namespace penstock {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

/// A shard that admits every arena but a stranger's, and evicts them on request.
class one_shard : public arena_registry {
 public:
  penstock::device& device_of(std::uint32_t /*shard*/) override { return device; }
  void admit(const arena_order& order, client_arena& arena, std::function<void(bool)> done) override {
    const std::lock_guard lock(mutex_);
    numbers_.insert(arena.number());
    if (order.client == "stranger") {
      arena.drop();
      done(false);
      return;
    }
    admitted_.push_back(&arena);
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

  testing::pinning_device device;

 private:
  std::mutex mutex_;
  std::vector<client_arena*> admitted_;
  std::set<std::uint32_t> numbers_;
};

/// What a client does at the Unix socket.
class peer {
 public:
  peer(const std::string& where, const std::string& ticket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, where.data(), where.size());
    address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + where.size());
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(socket_.number(), static_cast<const sockaddr*>(static_cast<const void*>(&address)), size), 0);
    EXPECT_EQ(::send(socket_.number(), ticket.data(), ticket.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(ticket.size()));
  }

  void leave() { socket_.close(); }
  /// The size of the arena that it gets, 0 when the connection ends instead.
  std::uint64_t receive() {
    std::array<std::byte, 16> record{};
    const ssize_t got = ::recv(socket_.number(), record.data(), record.size(), MSG_WAITALL);
    std::uint64_t size = 0;
    std::memcpy(&size, record.data() + 8, sizeof size);
    return got == static_cast<ssize_t>(record.size()) ? size : 0;
  }
  /// The same, and keeps the descriptor of it.
  file_descriptor receive_descriptor() {
    std::array<std::byte, 16> record{};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    iovec content{record.data(), record.size()};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    int descriptor = -1;
    if (::recvmsg(socket_.number(), &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) > 0 &&
        CMSG_FIRSTHDR(&message) != nullptr) {
      std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    }
    return file_descriptor{descriptor};
  }
  /// Whether the connection ends.
  bool ends() {
    std::byte one{};
    return ::recv(socket_.number(), &one, 1, 0) == 0;
  }

 private:
  file_descriptor socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

class ShmServer : public ::testing::Test {
 protected:
  ShmServer() { server_.start(); }

  std::string ticket(std::size_t bytes, const std::string& client = "ann", arena_memory memory = arena_memory::host) {
    return server_.issue({.shard = 0, .client = client, .incarnation = 0, .bytes = bytes, .memory = memory});
  }
  bool until(std::size_t arenas) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (server_.in_use().arenas != arenas && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    return server_.in_use().arenas == arenas;
  }

  one_shard shard_;
  memory_budget memory_{64 * mebibyte};
  shm_server server_{
      {.max_bytes = 4 * mebibyte, .max_client_bytes = 3 * mebibyte, .max_device_bytes = 2 * mebibyte, .socket = ""},
      {},
      shard_,
      memory_};
};

TEST_F(ShmServer, LendsDeviceMemoryWhichCountsByItselfAndIsNotPinned) {
  peer ann(server_.socket(), ticket(2 * mebibyte, "ann", arena_memory::device));
  EXPECT_EQ(ann.receive(), 2 * mebibyte);
  ASSERT_TRUE(until(1));
  EXPECT_EQ(server_.in_use().bytes, 0U);
  EXPECT_EQ(server_.in_use().device_bytes, 2 * mebibyte);
  EXPECT_EQ(shard_.device.pinned_bytes(), 0U);
  EXPECT_EQ(shard_.device.in_use().device, 2 * mebibyte);
  EXPECT_EQ(memory_.used(), 0U);
  EXPECT_EQ(ticket(1, "bob", arena_memory::device), "") << "max_device_bytes is reached";
  peer bob(server_.socket(), ticket(3 * mebibyte, "ann"));
  EXPECT_EQ(bob.receive(), 3 * mebibyte) << "of the host's memory she has none yet";
  client_arena& used = shard_.used();
  bob.leave();
  ann.leave();
  used.drop();
  ASSERT_TRUE(until(0));
  EXPECT_EQ(server_.in_use().device_bytes, 0U);
  EXPECT_EQ(shard_.device.in_use().device, 0U);
}

TEST_F(ShmServer, EndsTheConnectionWhereTheDeviceExportsNoMemory) {
  shard_.device.refuses = true;
  peer ann(server_.socket(), ticket(mebibyte, "ann", arena_memory::device));
  EXPECT_TRUE(ann.ends());
  EXPECT_EQ(server_.in_use().device_bytes, 0U);
}

TEST_F(ShmServer, LendsMemoryThatIsPinnedAndTakesItBackWhenTheConnectionEnds) {
  peer ann(server_.socket(), ticket(mebibyte));
  EXPECT_EQ(ann.receive(), mebibyte);
  EXPECT_EQ(server_.in_use().bytes, mebibyte);
  EXPECT_EQ(shard_.device.pinned_bytes(), mebibyte);
  ann.leave();
  EXPECT_TRUE(until(0));
  EXPECT_EQ(server_.in_use().bytes, 0U);
  EXPECT_EQ(shard_.device.pinned_bytes(), 0U);
}

TEST_F(ShmServer, KeepsMemoryPinnedAsLongAsARequestLiesInIt) {
  peer ann(server_.socket(), ticket(mebibyte));
  ASSERT_EQ(ann.receive(), mebibyte);
  client_arena& used = shard_.used();
  ann.leave();
  peer ben(server_.socket(), ticket(mebibyte));
  ASSERT_EQ(ben.receive(), mebibyte) << "by then the end of the first connection has been seen";
  EXPECT_EQ(server_.in_use().arenas, 2U);
  *used.at(0) = std::byte{1};
  used.drop();
  EXPECT_TRUE(until(1));
}

// Who names memory that has gone back names no other memory by that.
TEST_F(ShmServer, GivesNoNumberASecondTime) {
  peer stays(server_.socket(), ticket(mebibyte, "ben"));
  ASSERT_EQ(stays.receive(), mebibyte);
  constexpr std::size_t leases = 20;
  for (std::size_t each = 0; each < leases; ++each) {
    peer ann(server_.socket(), ticket(mebibyte));
    ASSERT_EQ(ann.receive(), mebibyte);
    peer refused(server_.socket(), ticket(mebibyte, "stranger"));
    ASSERT_TRUE(refused.ends());
    ann.leave();
    ASSERT_TRUE(until(1));
  }
  EXPECT_EQ(shard_.numbers(), 1 + 2 * leases);
}

TEST_F(ShmServer, CountsWhatAClientKeepsAfterItsLease) {
  peer ann(server_.socket(), ticket(3 * mebibyte));
  file_descriptor kept = ann.receive_descriptor();
  ASSERT_TRUE(kept);
  ann.leave();
  EXPECT_TRUE(until(0));
  EXPECT_EQ(server_.in_use().bytes, 3 * mebibyte);
  EXPECT_EQ(shard_.device.pinned_bytes(), 0U);
  EXPECT_EQ(ticket(2 * mebibyte, "ben"), "") << "the pages are there still";
  const std::string small = ticket(mebibyte);
  peer again(server_.socket(), small);
  EXPECT_TRUE(again.ends()) << "it has its share";
  kept.close();
  peer ben(server_.socket(), ticket(mebibyte, "ben"));
  EXPECT_EQ(ben.receive(), mebibyte) << "and is looked at when somebody comes";
  EXPECT_EQ(server_.in_use().bytes, mebibyte);
}

TEST_F(ShmServer, EndsTheConnectionWhenTheShardLetsGo) {
  peer ann(server_.socket(), ticket(mebibyte));
  ASSERT_EQ(ann.receive(), mebibyte);
  shard_.evict(0, shard_.used().number());
  EXPECT_EQ(server_.in_use().arenas, 1U) << "a request lies in it";
  peer ben(server_.socket(), ticket(mebibyte, "stranger"));
  EXPECT_TRUE(ben.ends());
}

TEST_F(ShmServer, MakesNothingForAClientThatHasItsShare) {
  peer ann(server_.socket(), ticket(2 * mebibyte));
  ASSERT_EQ(ann.receive(), 2 * mebibyte);
  peer again(server_.socket(), ticket(2 * mebibyte));
  EXPECT_TRUE(again.ends());
  peer ben(server_.socket(), ticket(2 * mebibyte, "ben"));
  EXPECT_EQ(ben.receive(), 2 * mebibyte);
}

TEST_F(ShmServer, ServesWhoHasATicketHoweverManyWaitWithoutOne) {
  std::vector<std::unique_ptr<peer>> idle;
  for (std::size_t each = 0; each < pending_peers::most; ++each) {
    idle.push_back(std::make_unique<peer>(server_.socket(), ""));
  }
  peer ann(server_.socket(), ticket(mebibyte));
  EXPECT_EQ(ann.receive(), mebibyte);
  EXPECT_TRUE(idle.front()->ends()) << "who has waited longest makes room";
}

TEST_F(ShmServer, GivesNothingWithoutATicketOrRoomOrPinning) {
  peer without(server_.socket(), std::string(32, '0'));
  EXPECT_TRUE(without.ends());
  EXPECT_EQ(ticket(5 * mebibyte), "");
  const std::string two[] = {ticket(3 * mebibyte), ticket(3 * mebibyte)};
  peer ann(server_.socket(), two[0]);
  ASSERT_EQ(ann.receive(), 3 * mebibyte);
  peer ben(server_.socket(), two[1]);
  EXPECT_TRUE(ben.ends());
  shard_.device.refuses = true;
  peer cid(server_.socket(), ticket(mebibyte));
  EXPECT_TRUE(cid.ends());
  EXPECT_EQ(server_.in_use().arenas, 1U);
}

}  // namespace
}  // namespace penstock
