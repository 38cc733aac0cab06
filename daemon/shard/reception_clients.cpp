#include <algorithm>
#include <utility>

#include "daemon/shard/reception.hpp"
#include "daemon/shard/shard_directory.hpp"
#include "daemon/shard/welcome_bodies.hpp"
#include "daemon/socket/connection_meter.hpp"
#include "daemon/socket/connection_rate.hpp"

namespace penstock {
namespace {

using wire::message_type;
using wire::status;

// That client is beyond its credits by far, and sends faster than it is served, or parts without an end. ZeroMQ's
// heartbeats count too: of a client that only reads they come to the least after some months.
std::int64_t most_ahead(const client_settings& limits) noexcept {
  constexpr std::size_t times = 4;
  constexpr std::size_t least = std::size_t{64} << 20U;
  return static_cast<std::int64_t>(std::max(least, times * (limits.credit_bytes + limits.max_request_bytes)));
}

}  // namespace

void reception::adopt(const client_settings& limits, std::vector<std::string> welcomes, time_point now) {
  limits_ = limits;
  set_client_bytes(most_ahead(limits));
  set_expected_clients(limits.max_clients);
  welcomes_ = std::move(welcomes);
  with_.clients.set_limits(limits.max_clients, limits.credit_requests);
  with_.clients.for_each([&](client_record& each) {
    if (!each.gone) {
      (void)grant(each, now);
      with_.out.control(each.identity, &each, answer_to({}, message_type::welcome),
                        welcome_for(each, /*resumed=*/true));
    }
  });
}

std::string reception::welcome_for(const client_record& client, bool resumed) const {
  const std::string& prepared = welcomes_[among_ != nullptr ? client.shard : 0];
  return with_resume(with_credit_bytes(prepared, client.told_bytes), client.token, resumed);
}

client_needs reception::needs() const {
  std::size_t largest = 0;
  bool keeps_state = false;
  for (const plan* const each : with_.served.in_order) {
    largest = std::max(largest, largest_request(each->input(), each->declaration.batch, limits_));
    keeps_state |= each->keeps_state();
  }
  return needs_of_client(limits_, largest, keeps_state);
}

// What it was told before stays its own: it may be using it.
bool reception::grant(client_record& client, time_point now) {
  const client_needs need = needs();
  if (!client.memory) {
    client.memory.emplace(with_.memory);
  }
  const std::size_t had = client.memory->bytes();
  const std::size_t told = had != 0 ? client.told_bytes : 0;
  const std::size_t bytes =
      std::max(need.credits(with_.memory.left() + had, limits_.credit_bytes), std::min(told, limits_.credit_bytes));
  if (!client.memory->resize(need.with(bytes))) {
    return had != 0;
  }
  client.grant(limits_.credit_requests, bytes, now);
  return true;
}

void reception::welcome(const incoming& message, const wire::message_header& header, time_point now) {
  const std::optional<wire::hello> said = wire::decode_hello(message.body);
  if (!said) {
    refuse(
        message, nullptr, header,
        {status::malformed, "the body of HELLO can't be read: " + wire::fault_of_request(header.type, message.body)});
    return;
  }
  if (!closed_.admitted()) {
    refuse(message, nullptr, header, closed_);
    return;
  }
  client_record* client = resume(message, *said);
  const bool resumed = client != nullptr;
  if (!resumed) {
    client = admit(message, *said, now);
  }
  if (client == nullptr) {
    refuse(message, nullptr, header,
           {status::too_many_clients, "all " + std::to_string(limits_.max_clients) + " places for clients are taken"});
    return;
  }
  // What those that are gone hold goes to who comes: for full credits only where they lose nothing by it.
  while (!resumed && needs().credits(with_.memory.left(), limits_.credit_bytes) < limits_.credit_bytes &&
         free_client_place(now, /*kept_too=*/false)) {
  }
  bool granted = grant(*client, now);
  while (!granted && free_client_place(now, /*kept_too=*/true)) {
    granted = grant(*client, now);
  }
  if (!granted) {
    note_refusal(client_places_, now);
    let_go(*client);
    refuse(message, nullptr, header,
           {status::too_many_clients, "no memory is left for another client (limits.memory)"});
    return;
  }
  set_client_bytes(most_ahead(limits_));
  meter_client(message.connection);
  client->last_heard = now;
  client->name = said->client;
  client->inline_bytes = std::min<std::uint64_t>(said->inline_bytes, wire::max_inline_bytes);
  with_.out.control(message.identity, client, answer_to(header, message_type::welcome), welcome_for(*client, resumed));
}

// One that has waited keeps its own: libzmq has given others since.
std::string reception::user_of(const incoming& message) const {
  return message.user != nullptr ? *message.user : with_.in.user();
}

client_record* reception::resume(const incoming& message, const wire::hello& said) {
  client_record* const here = with_.clients.find(message.identity);
  client_record* const shown = with_.clients.find_token(said.resume, user_of(message));
  if (shown == nullptr || shown == here) {
    return here != nullptr && !here->gone ? here : nullptr;
  }
  if (here != nullptr && !here->gone) {
    let_go(*here);
  }
  with_.clients.move(*shown, message.identity);
  ++with_.counters.clients_resumed;
  return shown;
}

client_record* reception::admit(const incoming& message, const wire::hello& said, time_point now) {
  client_record* client = with_.clients.admit(message.identity, now);
  if (client == nullptr) {
    forget_gone(now);
    client = with_.clients.admit(message.identity, now);
  }
  while (client == nullptr && free_client_place(now, /*kept_too=*/true)) {
    client = with_.clients.admit(message.identity, now);
  }
  if (client == nullptr) {
    note_refusal(client_places_, now);
    return nullptr;
  }
  client->user = user_of(message);
  if (among_ != nullptr) {
    among_->missed(said.resume);  // who was sent here shows the token of the front door
    client->shard = among_->choose(self_.shard, client->token);
    client->elsewhere = client->shard != self_.shard;
    if (!client->elsewhere) {
      settle_here(*client);
    }
  }
  return client;
}

void reception::settle_here(client_record& client) {
  client.elsewhere = false;
  if (among_ != nullptr) {
    among_->arrived(self_.shard, client.token);
  }
}

void reception::depart(client_record& client) {
  if (among_ != nullptr && !client.gone) {
    client.elsewhere ? among_->missed(client.token) : among_->left(self_.shard);
  }
  client.gone = true;
}

// What it had in flight is given up, and nothing of it is left for whoever comes next over the same connection.
void reception::let_go(client_record& leaving) {
  depart(leaving);
  with_.clients.revoke(leaving);
  leaving.incarnation = with_.clients.next_incarnation();
  leaving.held.clear();
  while (request* const left = leaving.in_flight.any()) {
    with_.path.end(*left, status::cancelled, "the client left");
  }
  with_.sessions.close_all(leaving);
  leaving.leave_arenas();
  with_.out.forget(leaving);
  leaving.memory.reset();
}

bool reception::say_goodbye() {
  with_.clients.for_each([this](client_record& each) {
    // Who has gone to another shard has said so, and has nothing to come from here.
    if (!each.gone && !with_.out.control(each.identity, &each, answer_to({}, message_type::goodbye), "")) {
      depart(each);
    }
  });
  return !alone();
}

bool reception::alone() const noexcept {
  bool none = true;
  std::as_const(with_.clients).for_each([&none](const client_record& each) { none = none && each.gone; });
  return none;
}

void reception::sweep(time_point now) {
  constexpr std::chrono::seconds silence{3};
  const bool pressing = with_.clients.size() >= limits_.max_clients || session_places_.is_short;
  probe(pressing ? std::chrono::seconds{0} : silence, now);
  end_grace(now);
  forget_gone(now);
  with_.clients.for_each([now](client_record& each) { each.settle(now); });
  with_.sessions.sweep(now);
  control_.sweep(now);
  note_room(client_places_, with_.clients.size() < limits_.max_clients, now);
  note_room(session_places_, with_.sessions.size() < with_.sessions.places(), now);
}

void reception::forget_gone(time_point now) {
  while (client_record* const client = with_.clients.forgettable(now - limits_.idle_timeout)) {
    depart(*client);
    with_.sessions.close_all(*client);
    client->leave_arenas();
    with_.out.forget(*client);
    with_.clients.forget(*client);
  }
}

}  // namespace penstock
