// Clients whose connection has ended, and their places.
#include <algorithm>
#include <chrono>

#include <spdlog/spdlog.h>

#include "daemon/shard/reception.hpp"

namespace penstock {
namespace {

// What is found by looking at all holds for so long, times the clients: whoever is turned away meanwhile makes nobody
// look again. A look takes a microsecond or two.
constexpr std::chrono::microseconds between_looks{50};
// So long a client is left alone: what it is sent waits for it.
constexpr std::chrono::milliseconds shortest_pause{100};
// Places are short until nobody has been turned away for so long.
constexpr std::chrono::seconds shortage{3};

}  // namespace

// ROUTER says at once that a connection is not there any more. Who was heard just now is left alone: its message is
// being handled, and its record must stay.
void reception::probe(std::chrono::nanoseconds silence, time_point now) {
  with_.clients.for_each([&](client_record& each) {
    const auto pause = std::max<std::chrono::nanoseconds>(silence, shortest_pause);
    if (each.gone || each.lost_since != never || each.last_heard + silence >= now || each.probed_at + pause > now) {
      return;
    }
    each.probed_at = now;
    if (!with_.out.reaches(each)) {
      each.lost_since = now;
    }
  });
}

void reception::probe_all(time_point now) {
  if (now >= probed_all_at_ + between_looks * with_.clients.size()) {
    probed_all_at_ = now;
    probe(std::chrono::nanoseconds{0}, now);
  }
}

void reception::end_grace(time_point now) {
  while (client_record* const client = with_.clients.lost_by(now - limits_.resume_grace)) {
    lose(*client);
  }
}

void reception::lose(client_record& client) {
  ++with_.counters.clients_lost;
  let_go(client);
}

bool reception::keeps_something(const client_record& client) const {
  return client.references > 0 || !client.arenas.empty() || with_.sessions.has_any(client);
}

bool reception::free_client_place(time_point now, bool kept_too) {
  probe_all(now);
  const auto keeps = [this](const client_record& each) { return keeps_something(each); };
  while (client_record* const client = with_.clients.most_lost(keeps)) {
    if (!kept_too && keeps(*client)) {
      return false;
    }
    lose(*client);
    if (client->references == 0) {
      with_.out.forget(*client);
      with_.clients.forget(*client);
      return true;
    }
  }
  return false;
}

// The device may still have work of a session: its place is free once that is done.
bool reception::free_session_place(time_point now) {
  probe_all(now);
  client_record* longest = nullptr;
  with_.clients.for_each([&](client_record& each) {
    const bool lost = !each.gone && each.lost_since != never;
    if (lost && (longest == nullptr || each.lost_since < longest->lost_since) && with_.sessions.has_any(each)) {
      longest = &each;
    }
  });
  if (longest != nullptr) {
    lose(*longest);
  }
  return longest != nullptr;
}

void reception::note_refusal(places& which, time_point now) const {
  which.refused_at = now;
  if (!which.is_short) {
    which.is_short = true;
    spdlog::warn("shard {}: no room for more {}, others are turned away", self_.shard, which.what);
  }
}

void reception::note_room(places& which, bool room, time_point now) const {
  if (which.is_short && room && now >= which.refused_at + shortage) {
    which.is_short = false;
    spdlog::info("shard {}: there is room for {} again", self_.shard, which.what);
  }
}

}  // namespace penstock
