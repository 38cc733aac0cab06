#include "daemon/shm/server.hpp"

#include <algorithm>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "base/process_limits.hpp"

namespace penstock {
namespace {

using boost::asio::local::stream_protocol;
using boost::system::error_code;

constexpr std::chrono::milliseconds pause_after_trouble{100};
constexpr std::chrono::seconds between_warnings{1};
constexpr std::chrono::seconds between_checks{1};

std::string any_name() {
  std::random_device entropy;
  return "@penstock-" + fmt::format("{:08x}{:08x}", entropy(), entropy());
}

}  // namespace

shm_server::shm_server(const shared_memory_settings& settings, const security_settings& access,
                       arena_registry& registry, memory_budget& memory)
    : settings_(settings),
      registry_(registry),
      memory_(memory),
      socket_(settings.socket.empty() ? any_name() : settings.socket),
      next_number_(std::random_device{}() | 1U) {
  try {
    listen(access);
  } catch (const std::exception& error) {
    throw std::runtime_error("cannot listen on shared_memory.socket " + socket_ + ": " + error.what());
  }
}

shm_server::~shm_server() {
  stop();
}

void shm_server::listen(const security_settings& access) {
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

void shm_server::start() {
  accept();
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "arenas");
    io_.run();
  });
}

void shm_server::stop() noexcept {
  if (thread_.joinable()) {
    io_.stop();
    thread_.join();
  }
}

void shm_server::accept() {
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
      accept_fails_ = false;
      receive(std::move(peer));
      accept();
    }
  });
}

void shm_server::wait_to_accept(const std::string& why) {
  if (!std::exchange(accept_fails_, true)) {
    spdlog::warn("shared memory: no connection can be taken: {}", why);
  }
  pause_.expires_after(pause_after_trouble);
  pause_.async_wait([this](const error_code& /*ended*/) { accept(); });
}

void shm_server::ask(std::function<void()> task) {
  boost::asio::post(io_, std::move(task));
}

// Connections without an arena are bounded, so that descriptors are left for clients.
void shm_server::receive(stream_protocol::socket peer) {
  const auto lease = std::make_shared<arena_lease>(
      std::move(peer), arena_lease::events{[this](arena_lease& ready, std::string_view ticket) { lend(ready, ticket); },
                                           [this](const arena_lease& ended) { evict_arena_of(ended); }});
  if (arena_lease* const surplus = pending_.surplus(lease->user())) {
    warn("too many connections without a ticket; one of " + surplus->peer() + " ends");
    surplus->end();
  }
  pending_.add(*lease, lease->user());
  lease->wait_for_ticket();
}

// At most one line a second: nobody can fill the log from outside.
void shm_server::warn(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (now - warned_ >= between_warnings) {
    warned_ = now;
    spdlog::warn("shared memory: {}", text);
  }
}

std::string shm_server::issue(arena_order order) {
  if (order.bytes > left(order.memory)) {
    return "";
  }
  return tickets_.issue(std::move(order), ticket_table::clock::now());
}

// Of max_bytes or max_device_bytes.
std::size_t shm_server::left(arena_memory memory) const noexcept {
  const bool on_device = memory == arena_memory::device;
  const std::size_t most = on_device ? settings_.max_device_bytes : settings_.max_bytes;
  return most - std::min((on_device ? device_bytes_ : bytes_).load(std::memory_order_relaxed), most);
}

shared_memory_use shm_server::in_use() const noexcept {
  return {arenas_.load(std::memory_order_acquire), bytes_.load(std::memory_order_acquire),
          device_bytes_.load(std::memory_order_acquire)};
}

void shm_server::lend(arena_lease& lease, std::string_view ticket) {
  const std::optional<arena_order> ordered = tickets_.redeem(ticket, ticket_table::clock::now());
  if (!ordered) {
    warn(lease.peer() + " shows no valid ticket");
    lease.end();
    return;
  }
  pending_.remove(lease);
  client_arena* const made = make(*ordered, lease);
  if (made == nullptr) {
    lease.end();
    return;
  }
  const std::uint32_t number = made->number();
  registry_.admit(*ordered, *made, [this, number](bool admitted) {
    boost::asio::post(io_, [this, number, admitted] { hand_over(number, admitted); });
  });
}

client_arena* shm_server::make(const arena_order& order, arena_lease& lease) {
  check_retained();
  if (!may_have(order)) {
    warn(fmt::format("no {} bytes for {}: {} or max_client_bytes is reached", order.bytes, lease.peer(),
                     order.memory == arena_memory::device ? "max_device_bytes" : "max_bytes"));
    return nullptr;
  }
  memory_grant memory(memory_);
  if (order.memory == arena_memory::host && !memory.resize(order.bytes)) {
    warn(fmt::format("no {} bytes for {}: limits.memory is reached", order.bytes, lease.peer()));
    return nullptr;
  }
  try {
    // After 2^32 leases numbers come again; those in use are skipped.
    while (next_number_ == 0 || loans_.count(next_number_) != 0) {
      ++next_number_;
    }
    auto made = std::make_unique<client_arena>(next_number_, order.bytes, registry_.device_of(order.shard), *this,
                                               order.memory);
    ++next_number_;
    arenas_.fetch_add(1);
    lent(order.memory).fetch_add(made->bytes());
    client_arena* const arena = made.get();
    loans_.emplace(arena->number(), loan{std::move(made), order.shard, order.client, lease.weak_from_this(),
                                         memory_watch(order.memory == arena_memory::host ? arena->descriptor() : -1),
                                         std::move(memory)});
    return arena;
  } catch (const std::exception& error) {
    warn(fmt::format("no {} bytes for {}: {}", order.bytes, lease.peer(), error.what()));
    return nullptr;
  }
}

// Within the limits of that memory, with what its last requests still use and what it has not unmapped.
bool shm_server::may_have(const arena_order& order) const {
  std::size_t arenas = 0;
  std::size_t bytes = order.bytes;
  for (const auto& [number, each] : loans_) {
    const bool its = each.shard == order.shard && each.client == order.client;
    arenas += its ? 1U : 0U;
    bytes +=
        its && each.arena->memory() == order.memory ? std::min(each.arena->bytes(), settings_.max_client_bytes) : 0;
  }
  for (const retained_memory& each : retained_) {
    const bool its = each.shard == order.shard && each.client == order.client && each.kind == order.memory;
    bytes += its ? std::min(each.bytes, settings_.max_client_bytes) : 0;
  }
  return order.bytes <= left(order.memory) && arenas < most_of_a_client && bytes <= settings_.max_client_bytes;
}

// The shard knows the arena: its client may have it. One that was not admitted is on its way back already.
void shm_server::hand_over(std::uint32_t number, bool admitted) {
  const auto found = loans_.find(number);
  const std::shared_ptr<arena_lease> lease =
      found != loans_.end() ? found->second.lease.lock() : std::shared_ptr<arena_lease>{};
  if (lease == nullptr) {
    if (admitted && found != loans_.end()) {
      registry_.evict(found->second.shard, number);
    }
    return;
  }
  if (!admitted) {
    lease->end();
  } else if (lease->give(*found->second.arena)) {
    found->second.arena->close_descriptor();
    spdlog::debug("shared memory: arena {} of {} bytes{} for {}", number, found->second.arena->bytes(),
                  found->second.arena->memory() == arena_memory::device ? " on the device" : "", lease->peer());
  }
}

void shm_server::evict_arena_of(const arena_lease& ended) {
  pending_.remove(ended);
  for (const auto& [number, each] : loans_) {
    if (each.lease.lock().get() == &ended) {
      registry_.evict(each.shard, number);
    }
  }
}

void shm_server::take_back(client_arena& unused) noexcept {
  boost::asio::post(io_, [this, number = unused.number()] { remove(number); });
}

void shm_server::remove(std::uint32_t number) {
  const auto found = loans_.find(number);
  const std::shared_ptr<arena_lease> lease = found->second.lease.lock();
  const std::size_t bytes = found->second.arena->bytes();
  const arena_memory kind = found->second.arena->memory();
  found->second.arena.reset();  // counted until it is unpinned, and until its client has let go of it
  retained_.push_back({std::move(found->second.watch), bytes, found->second.shard, std::move(found->second.client),
                       std::move(found->second.memory), kind});
  loans_.erase(found);
  check_retained();
  arenas_.fetch_sub(1);
  if (lease != nullptr) {
    lease->end();
  }
}

// A client may end its lease and keep the mapping, for results that it still reads: the pages stay until it unmaps.
void shm_server::check_retained() {
  std::erase_if(retained_, [this](const retained_memory& each) {
    const bool kept = each.watch.sees_anybody();
    lent(each.kind).fetch_sub(kept ? 0 : each.bytes);
    return !kept;
  });
  if (retained_.empty()) {
    next_check_.cancel();
    return;
  }
  next_check_.expires_after(between_checks);
  next_check_.async_wait([this](const error_code& error) {
    if (!error) {
      check_retained();
    }
  });
}

}  // namespace penstock
