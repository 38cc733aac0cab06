#include "daemon/shared_memory/arena_keeper.hpp"

#include <algorithm>
#include <exception>
#include <random>
#include <stdexcept>
#include <utility>

#include <boost/asio/post.hpp>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "daemon/socket/descriptors.hpp"

namespace penstock {
namespace {

using boost::asio::local::stream_protocol;
using boost::system::error_code;

constexpr std::chrono::milliseconds pause_after_trouble{100};
constexpr std::chrono::seconds between_complaints{1};
constexpr std::chrono::seconds between_looks{1};

std::string any_name() {
  std::random_device entropy;
  return "@penstock-" + fmt::format("{:08x}{:08x}", entropy(), entropy());
}

}  // namespace

arena_keeper::arena_keeper(const shared_memory_settings& how, const security_settings& access, arena_tenants& tenants,
                           memory_budget& memory)
    : how_(how),
      tenants_(tenants),
      memory_(memory),
      socket_(how.socket.empty() ? any_name() : how.socket),
      next_number_(std::random_device{}() | 1U) {
  try {
    listen(access);
  } catch (const std::exception& error) {
    throw std::runtime_error("cannot listen on shared_memory.socket " + socket_ + ": " + error.what());
  }
}

arena_keeper::~arena_keeper() {
  stop();
}

void arena_keeper::listen(const security_settings& access) {
  if (socket_.front() != '@') {
    file_.emplace(socket_, ipc_access{.mode = access.ipc_mode, .group = group_of(access.ipc_group)});
    acceptor_.assign(stream_protocol(), file_->release());
    return;
  }
  std::string name = socket_;
  name.front() = '\0';
  acceptor_.open(stream_protocol());
  acceptor_.bind(stream_protocol::endpoint(name));
  acceptor_.listen();
}

void arena_keeper::start() {
  accept();
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "arenas");
    io_.run();
  });
}

void arena_keeper::stop() noexcept {
  if (thread_.joinable()) {
    io_.stop();
    thread_.join();
  }
}

void arena_keeper::accept() {
  acceptor_.async_accept([this](const error_code& error, stream_protocol::socket peer) {
    if (error == boost::asio::error::operation_aborted) {
      return;
    }
    if (error) {
      wait_to_accept(error.message());
    } else if (is_among_the_last(peer.native_handle())) {
      peer.close();
      wait_to_accept("descriptors are short");
    } else {
      takes_nobody_ = false;
      receive(std::move(peer));
      accept();
    }
  });
}

void arena_keeper::wait_to_accept(const std::string& why) {
  if (!std::exchange(takes_nobody_, true)) {
    spdlog::warn("shared memory: no connection can be taken: {}", why);
  }
  pause_.expires_after(pause_after_trouble);
  pause_.async_wait([this](const error_code& /*ended*/) { accept(); });
}

void arena_keeper::ask(std::function<void()> what) {
  boost::asio::post(io_, std::move(what));
}

// Who has no arena yet may be anybody: only so many of those, so that there are descriptors left for clients.
void arena_keeper::receive(stream_protocol::socket peer) {
  const auto visitor = std::make_shared<arena_lease>(
      std::move(peer), arena_lease::events{[this](arena_lease& by, std::string_view ticket) { lend(by, ticket); },
                                           [this](const arena_lease& ended) { forget(ended); }});
  if (arena_lease* const surplus = visitors_.surplus(visitor->user())) {
    complain("too many connections without a ticket; one of " + surplus->peer() + " ends");
    surplus->end();
  }
  visitors_.enter(*visitor, visitor->user());
  visitor->wait_for_ticket();
}

// One line at a time: nobody can fill the log from outside.
void arena_keeper::complain(const std::string& what) {
  const auto now = std::chrono::steady_clock::now();
  if (now - complained_ >= between_complaints) {
    complained_ = now;
    spdlog::warn("shared memory: {}", what);
  }
}

std::string arena_keeper::issue(arena_order what) {
  const std::size_t out = bytes_.load(std::memory_order_relaxed);
  if (what.bytes > how_.max_bytes - std::min(out, how_.max_bytes)) {
    return "";
  }
  return tickets_.issue(std::move(what), ticket_office::clock::now());
}

shared_memory_use arena_keeper::in_use() const noexcept {
  return {arenas_.load(std::memory_order_acquire), bytes_.load(std::memory_order_acquire)};
}

void arena_keeper::lend(arena_lease& to, std::string_view ticket) {
  const std::optional<arena_order> ordered = tickets_.redeem(ticket, ticket_office::clock::now());
  if (!ordered) {
    complain(to.peer() + " shows no valid ticket");
    to.end();
    return;
  }
  visitors_.leave(to);
  client_arena* const made = make(*ordered, to);
  if (made == nullptr) {
    to.end();
    return;
  }
  const std::uint32_t number = made->number();
  tenants_.admit(*ordered, *made, [this, number](bool admitted) {
    boost::asio::post(io_, [this, number, admitted] { hand_over(number, admitted); });
  });
}

client_arena* arena_keeper::make(const arena_order& what, arena_lease& to) {
  look_at_left();
  if (!may_have(what)) {
    complain(fmt::format("no {} bytes for {}: max_bytes or max_client_bytes is reached", what.bytes, to.peer()));
    return nullptr;
  }
  memory_grant memory(memory_);
  if (!memory.resize(what.bytes)) {
    complain(fmt::format("no {} bytes for {}: limits.memory is reached", what.bytes, to.peer()));
    return nullptr;
  }
  try {
    // All of them have been given once after 2^32 leases; those that are out then are passed over.
    while (next_number_ == 0 || tenancies_.count(next_number_) != 0) {
      ++next_number_;
    }
    auto made = std::make_unique<client_arena>(next_number_, what.bytes, tenants_.device_of(what.shard), *this);
    ++next_number_;
    arenas_.fetch_add(1);
    bytes_.fetch_add(made->bytes());
    client_arena* const arena = made.get();
    tenancies_.emplace(arena->number(), tenancy{std::move(made), what.shard, what.client, to.weak_from_this(),
                                                memory_watch(arena->descriptor()), std::move(memory)});
    return arena;
  } catch (const std::exception& error) {
    complain(fmt::format("no {} bytes for {}: {}", what.bytes, to.peer(), error.what()));
    return nullptr;
  }
}

// Of all memory, and of the client's own, with what its last requests still use and what it has kept.
bool arena_keeper::may_have(const arena_order& what) const {
  std::size_t arenas = 0;
  std::size_t bytes = what.bytes;
  for (const auto& [number, each] : tenancies_) {
    const bool its = each.shard == what.shard && each.client == what.client;
    arenas += its ? 1U : 0U;
    bytes += its ? std::min(each.arena->bytes(), how_.max_client_bytes) : 0;
  }
  for (const left_behind& each : left_) {
    bytes += each.shard == what.shard && each.client == what.client ? std::min(each.bytes, how_.max_client_bytes) : 0;
  }
  return what.bytes <= how_.max_bytes - std::min(bytes_.load(), how_.max_bytes) && arenas < most_of_a_client &&
         bytes <= how_.max_client_bytes;
}

// The shard knows the arena: its client may have it. One that was not admitted is on its way back already.
void arena_keeper::hand_over(std::uint32_t number, bool admitted) {
  const auto found = tenancies_.find(number);
  const std::shared_ptr<arena_lease> lease =
      found != tenancies_.end() ? found->second.lease.lock() : std::shared_ptr<arena_lease>{};
  if (lease == nullptr) {
    if (admitted && found != tenancies_.end()) {
      tenants_.evict(found->second.shard, number);
    }
    return;
  }
  if (!admitted) {
    lease->end();
  } else if (lease->give(*found->second.arena)) {
    found->second.arena->close_descriptor();
    spdlog::debug("shared memory: arena {} of {} bytes for {}", number, found->second.arena->bytes(), lease->peer());
  }
}

void arena_keeper::forget(const arena_lease& ended) {
  visitors_.leave(ended);
  for (const auto& [number, each] : tenancies_) {
    if (each.lease.lock().get() == &ended) {
      tenants_.evict(each.shard, number);
    }
  }
}

void arena_keeper::take_back(client_arena& unused) noexcept {
  boost::asio::post(io_, [this, number = unused.number()] { remove(number); });
}

void arena_keeper::remove(std::uint32_t number) {
  const auto found = tenancies_.find(number);
  const std::shared_ptr<arena_lease> lease = found->second.lease.lock();
  const std::size_t bytes = found->second.arena->bytes();
  found->second.arena.reset();  // counted until it is unpinned, and until its client has let go of it
  left_.push_back({std::move(found->second.watch), bytes, found->second.shard, std::move(found->second.client),
                   std::move(found->second.memory)});
  tenancies_.erase(found);
  look_at_left();
  arenas_.fetch_sub(1);
  if (lease != nullptr) {
    lease->end();
  }
}

// A client may end its lease and keep the mapping, for results that it still reads: the pages stay until it lets go.
void arena_keeper::look_at_left() {
  std::erase_if(left_, [this](const left_behind& each) {
    const bool kept = each.watch.sees_anybody();
    bytes_.fetch_sub(kept ? 0 : each.bytes);
    return !kept;
  });
  if (left_.empty()) {
    next_look_.cancel();
    return;
  }
  next_look_.expires_after(between_looks);
  next_look_.async_wait([this](const error_code& error) {
    if (!error) {
      look_at_left();
    }
  });
}

}  // namespace penstock
