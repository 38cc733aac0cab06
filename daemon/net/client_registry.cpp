#include "daemon/net/client_registry.hpp"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/net/connection_limits.hpp"
#include "daemon/net/welcome.hpp"
#include "daemon/shm/segment.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

using wire::message_type;
using wire::status;

// A probe of all clients is valid for this long, times the clients, so that refused clients don't cause further ones.
// It takes one or two microseconds a client.
constexpr std::chrono::microseconds between_probes{50};
// A client is not probed again within this time: what it is sent waits for it.
constexpr std::chrono::milliseconds shortest_pause{100};
// Places are short until nobody has been refused for so long.
constexpr std::chrono::seconds shortage{3};

// A client that is further ahead than this sends faster than it is served, or sends parts without end, and is cut off.
// ZeroMQ's heartbeats count too: a client that only reads reaches the minimum after some months.
std::int64_t most_ahead(const client_settings& limits) noexcept {
  constexpr std::size_t times = 4;
  constexpr std::size_t least = std::size_t{64} << 20U;
  return static_cast<std::int64_t>(std::max(least, times * (limits.credit_bytes + limits.max_request_bytes)));
}

wire::message_header control_header(message_type type, std::uint64_t request_id) noexcept {
  wire::message_header header;
  header.type = type;
  header.request_id = request_id;
  return header;
}

}  // namespace

client_registry::client_registry(const parts& all, const client_settings& limits, introduction self)
    : parts_(all), limits_(limits), self_(std::move(self)), welcomes_(welcomes_of(parts_.served, limits)) {
  set_expected_clients(limits.max_clients);
}

void client_registry::join(shard_directory& directory, const shm_server* server) {
  directory_ = &directory;
  shared_bytes_ = server != nullptr ? server->max_client_bytes() : 0;
  device_bytes_ = server != nullptr && !self_.device.empty() ? server->max_client_device_bytes() : 0;
  welcomes_ = welcomes_of(parts_.served, limits_);
}

std::vector<std::string> client_registry::welcomes_of(const served_pipelines& served,
                                                      const client_settings& limits) const {
  return welcome_bodies({self_.server, self_.instance, self_.shard, directory_, served, limits, shared_bytes_,
                         device_bytes_, self_.device});
}

void client_registry::adopt(const client_settings& limits, std::vector<std::string> welcomes, time_point now) {
  limits_ = limits;
  set_client_bytes(most_ahead(limits));
  set_expected_clients(limits.max_clients);
  welcomes_ = std::move(welcomes);
  parts_.clients.set_limits(limits.max_clients, limits.credit_requests);
  parts_.clients.for_each([&](client_record& each) {
    if (!each.gone) {
      (void)grant(each, now);
      send_welcome(each, 0, /*resumed=*/true);
    }
  });
}

void client_registry::send_welcome(const client_record& client, std::uint64_t request_id, bool resumed) {
  const std::string& prepared = welcomes_[directory_ != nullptr ? client.shard : 0];
  parts_.replies.control(client.identity, &client, control_header(message_type::welcome, request_id),
                         with_resume(with_credit_bytes(prepared, client.told_bytes), client.token, resumed));
}

verdict client_registry::connect(const incoming& message, const wire::hello& hello, const std::string& user,
                                 std::uint64_t request_id, time_point now) {
  client_record* client = resume(message.identity, hello.resume, user);
  const bool resumed = client != nullptr;
  if (!resumed) {
    client = admit(message, hello.resume, user, now);
  }
  if (client == nullptr) {
    return {status::too_many_clients, "all " + std::to_string(limits_.max_clients) + " places for clients are taken"};
  }
  // Memory of clients that are gone goes to the new one; for its full credits only if they lose nothing by that.
  while (!resumed && needs().credits(parts_.memory.left(), limits_.credit_bytes) < limits_.credit_bytes &&
         free_client_place(now, /*kept_too=*/false)) {
  }
  bool granted = grant(*client, now);
  while (!granted && free_client_place(now, /*kept_too=*/true)) {
    granted = grant(*client, now);
  }
  if (!granted) {
    note_refusal(client_places_, now);
    leave(*client);
    return {status::too_many_clients, "no memory is left for another client (limits.memory)"};
  }
  set_client_bytes(most_ahead(limits_));
  meter_client(message.connection);
  client->last_heard = now;
  client->name = hello.client;
  client->inline_bytes = std::min<std::uint64_t>(hello.inline_bytes, wire::max_inline_bytes);
  send_welcome(*client, request_id, resumed);
  return {};
}

// The client of this connection, or the one whose token it shows; that one speaks over this connection from now on.
client_record* client_registry::resume(std::string_view identity, const std::string& token, const std::string& user) {
  client_record* const here = parts_.clients.find(identity);
  client_record* const shown = parts_.clients.find_token(token, user);
  if (shown == nullptr || shown == here) {
    return here != nullptr && !here->gone ? here : nullptr;
  }
  if (here != nullptr && !here->gone) {
    leave(*here);
  }
  parts_.clients.move(*shown, identity);
  ++parts_.counters.clients_resumed;
  return shown;
}

client_record* client_registry::admit(const incoming& message, const std::string& token, const std::string& user,
                                      time_point now) {
  const auto take_place = [&] { return parts_.clients.admit(message.identity, now, message.within_process()); };
  client_record* client = take_place();
  if (client == nullptr) {
    forget_gone(now);
    client = take_place();
  }
  while (client == nullptr && free_client_place(now, /*kept_too=*/true)) {
    client = take_place();
  }
  if (client == nullptr) {
    note_refusal(client_places_, now);
    return nullptr;
  }
  client->user = user;
  if (directory_ != nullptr) {
    directory_->missed(token);  // a client that was sent to this shard shows its token of the front door
    // A source was given its shard when it was made.
    client->shard = message.within_process() ? self_.shard : directory_->choose(self_.shard, client->token);
    client->elsewhere = client->shard != self_.shard;
    if (!client->elsewhere) {
      settle(*client);
    }
  }
  return client;
}

void client_registry::settle(client_record& client) {
  client.elsewhere = false;
  if (directory_ != nullptr) {
    directory_->arrived(self_.shard, client.token);
  }
}

client_needs client_registry::needs() const {
  std::size_t largest = 0;
  bool keeps_state = false;
  for (const plan* const each : parts_.served.in_order) {
    largest = std::max(
        largest, largest_request(each->frame_bytes(each->input().shape.front()), each->declaration.batch, limits_));
    keeps_state |= each->keeps_state();
  }
  return needs_of_client(limits_, largest, keeps_state);
}

// Grants credits out of the daemon's memory; false if there is none left. The client keeps what it was told before,
// since it may be using that.
bool client_registry::grant(client_record& client, time_point now) {
  const client_needs need = needs();
  if (!client.memory) {
    client.memory.emplace(parts_.memory);
  }
  const std::size_t had = client.memory->bytes();
  const std::size_t told = had != 0 ? client.told_bytes : 0;
  const std::size_t bytes =
      std::max(need.credits(parts_.memory.left() + had, limits_.credit_bytes), std::min(told, limits_.credit_bytes));
  if (!client.memory->resize(need.total(bytes))) {
    return had != 0;
  }
  client.grant(limits_.credit_requests, bytes, now);
  return true;
}

// Nothing is sent to it any more.
void client_registry::depart(client_record& client) {
  if (directory_ != nullptr && !client.gone) {
    client.elsewhere ? directory_->missed(client.token) : directory_->left(self_.shard);
  }
  client.gone = true;
}

// Its requests end, and nothing of it is left for the next client over the same connection.
void client_registry::leave(client_record& client) {
  depart(client);
  parts_.clients.revoke(client);
  client.incarnation = parts_.clients.next_incarnation();
  client.held.clear();
  while (request* const left = client.in_flight.any()) {
    parts_.scheduling.end(*left, status::cancelled, "the client left");
  }
  parts_.sessions.close_all(client);
  client.leave_arenas();
  parts_.replies.forget(client);
  client.memory.reset();
}

session_record* client_registry::open_session(const client_record& client, const plan& pipeline, std::string_view name,
                                              time_point now) {
  session_record* opened = parts_.sessions.open(client, pipeline, name, now);
  while (opened == nullptr && !parts_.sessions.full(client) && free_session_place(now)) {
    opened = parts_.sessions.open(client, pipeline, name, now);
  }
  if (opened == nullptr && !parts_.sessions.full(client)) {
    note_refusal(session_places_, now);
  }
  return opened;
}

bool client_registry::admit_arena(const arena_order& order, client_arena& arena) {
  client_record* const client = parts_.clients.find_incarnation(order.incarnation);
  if (client == nullptr || client->gone) {
    arena.drop();
    return false;
  }
  client->arenas.push_back(&arena);
  return true;
}

void client_registry::evict_arena(std::uint32_t number) {
  bool found = false;
  parts_.clients.for_each([&](client_record& each) { found = found || each.leave_arena(number); });
}

bool client_registry::say_goodbye() {
  parts_.clients.for_each([this](client_record& each) {
    // A client that went to another shard has said so, and nothing is owed to it here.
    if (!each.gone && !parts_.replies.control(each.identity, &each, control_header(message_type::goodbye, 0), "")) {
      depart(each);
    }
  });
  return !empty();
}

bool client_registry::empty() const noexcept {
  bool none = true;
  std::as_const(parts_.clients).for_each([&none](const client_record& each) { none = none && each.gone; });
  return none;
}

void client_registry::sweep(time_point now) {
  constexpr std::chrono::seconds silence{3};
  const bool full = parts_.clients.full() || session_places_.is_short;
  probe(full ? std::chrono::seconds{0} : silence, now);
  end_grace(now);
  forget_gone(now);
  parts_.clients.for_each([now](client_record& each) { each.settle(now); });
  parts_.sessions.sweep(now);
  note_room(client_places_, !parts_.clients.full(), now);
  note_room(session_places_, parts_.sessions.size() < parts_.sessions.places(), now);
}

void client_registry::forget_gone(time_point now) {
  while (client_record* const client = parts_.clients.forgettable(now - limits_.idle_timeout)) {
    depart(*client);
    parts_.sessions.close_all(*client);
    client->leave_arenas();
    parts_.replies.forget(*client);
    parts_.clients.forget(*client);
  }
}

// ROUTER reports at once that a connection no longer exists. A client that was heard just now is skipped: its message
// is being handled, and its record must stay.
void client_registry::probe(std::chrono::nanoseconds silence, time_point now) {
  parts_.clients.for_each([&](client_record& each) {
    const auto pause = std::max<std::chrono::nanoseconds>(silence, shortest_pause);
    if (each.gone || each.lost_since != never || each.last_heard + silence >= now || each.probed_at + pause > now) {
      return;
    }
    each.probed_at = now;
    if (!parts_.replies.reaches(each)) {
      each.lost_since = now;
    }
  });
}

void client_registry::probe_all(time_point now) {
  if (now >= probed_all_at_ + between_probes * parts_.clients.size()) {
    probed_all_at_ = now;
    probe(std::chrono::nanoseconds{0}, now);
  }
}

void client_registry::end_grace(time_point now) {
  while (client_record* const client = parts_.clients.lost_by(now - limits_.resume_grace)) {
    lose(*client);
  }
}

void client_registry::lose(client_record& client) {
  ++parts_.counters.clients_lost;
  leave(client);
}

bool client_registry::keeps_something(const client_record& client) const {
  return client.references > 0 || !client.arenas.empty() || parts_.sessions.has_any(client);
}

bool client_registry::free_client_place(time_point now, bool kept_too) {
  probe_all(now);
  const auto keeps = [this](const client_record& each) { return keeps_something(each); };
  while (client_record* const client = parts_.clients.most_lost(keeps)) {
    if (!kept_too && keeps(*client)) {
      return false;
    }
    lose(*client);
    if (client->references == 0) {
      parts_.replies.forget(*client);
      parts_.clients.forget(*client);
      return true;
    }
  }
  return false;
}

// The device may still work on a session; its place is free once that is done.
bool client_registry::free_session_place(time_point now) {
  probe_all(now);
  client_record* longest = nullptr;
  parts_.clients.for_each([&](client_record& each) {
    const bool lost = !each.gone && each.lost_since != never;
    if (lost && (longest == nullptr || each.lost_since < longest->lost_since) && parts_.sessions.has_any(each)) {
      longest = &each;
    }
  });
  if (longest != nullptr) {
    lose(*longest);
  }
  return longest != nullptr;
}

void client_registry::note_refusal(places& kind, time_point now) const {
  kind.refused_at = now;
  if (!kind.is_short) {
    kind.is_short = true;
    spdlog::warn("shard {}: no room for more {}, others are turned away", self_.shard, kind.name);
  }
}

void client_registry::note_room(places& kind, bool room, time_point now) const {
  if (kind.is_short && room && now >= kind.refused_at + shortage) {
    kind.is_short = false;
    spdlog::info("shard {}: there is room for {} again", self_.shard, kind.name);
  }
}

}  // namespace penstock
