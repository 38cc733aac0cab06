#include "daemon/request/sessions.hpp"

#include <algorithm>
#include <limits>

namespace penstock {
namespace {

// number % places is always the place. Each new session of a place gets a greater number, so that the number of a
// closed session is used again as late as possible.
std::uint32_t next_number(std::uint32_t last, std::uint32_t places, std::uint32_t place) noexcept {
  const bool wraps = last > std::numeric_limits<std::uint32_t>::max() - places;
  return wraps ? places + place : last + places;
}

}  // namespace

void session_record::append(request& newest) noexcept {
  newest.session_previous = last;
  newest.session_next = nullptr;
  (last == nullptr ? first : last->session_next) = &newest;
  last = &newest;
}

void session_record::unlink(request& answered) noexcept {
  (answered.session_previous == nullptr ? first : answered.session_previous->session_next) = answered.session_next;
  (answered.session_next == nullptr ? last : answered.session_next->session_previous) = answered.session_previous;
}

session_table::session_table(std::uint32_t max_sessions, std::chrono::nanoseconds idle_timeout, std::uint32_t seed,
                             std::uint32_t max_per_client)
    : idle_timeout_(idle_timeout), max_per_client_(max_per_client), places_(max_sessions) {
  const std::uint32_t round = seed % (std::numeric_limits<std::uint32_t>::max() / max_sessions - 1) + 1;
  for (std::uint32_t place = 0; place < max_sessions; ++place) {
    places_[place].place = place;
    places_[place].number = round * max_sessions + place;
  }
}

session_record* session_table::open(const client_record& client, const plan& pipeline, std::string_view name,
                                    time_point now) {
  session_record* found = nullptr;
  for (session_record& each : places_) {
    if (!each.closed && !name.empty() && each.client == &client && each.pipeline == &pipeline && each.name == name) {
      each.last_used = now;
      return &each;
    }
    if (each.free() && found == nullptr) {
      found = &each;
    }
  }
  if (full(client)) {
    return nullptr;
  }
  if (found == nullptr) {
    found = &*std::min_element(places_.begin(), places_.end(), [&](const auto& left, const auto& right) {
      return idle(left, now) > idle(right, now) ||
             (idle(left, now) == idle(right, now) && left.last_used < right.last_used);
    });
    if (!idle(*found, now)) {
      return nullptr;
    }
  }
  const auto places = static_cast<std::uint32_t>(places_.size());
  *found = {.number = next_number(found->number, places, found->place),
            .place = found->place,
            .client = &client,
            .pipeline = &pipeline,
            .name = std::string(name),
            .last_used = now,
            .closed = false};
  return found;
}

session_record* session_table::find(std::uint32_t number, const client_record& client) noexcept {
  session_record& there = places_[number % places_.size()];
  return there.number == number && !there.closed && there.client == &client ? &there : nullptr;
}

bool session_table::full(const client_record& client) const noexcept {
  const auto open = std::count_if(places_.begin(), places_.end(),
                                  [&](const auto& each) { return !each.closed && each.client == &client; });
  return static_cast<std::uint64_t>(open) >= max_per_client_;
}

bool session_table::has_any(const client_record& client) const noexcept {
  return std::any_of(places_.begin(), places_.end(),
                     [&](const session_record& each) { return !each.closed && each.client == &client; });
}

void session_table::close_all(const client_record& client) noexcept {
  for (session_record& each : places_) {
    if (each.client == &client) {
      each.closed = true;
    }
  }
}

void session_table::close_all(const plan& pipeline, const std::string& why) {
  for (session_record& each : places_) {
    if (each.pipeline == &pipeline && !each.closed) {
      each.closed = true;
      each.lost_to = why;
    }
  }
}

std::string session_table::why_lost(std::uint32_t number, const client_record& client) const {
  const session_record& there = places_[number % places_.size()];
  return there.number == number && there.client == &client ? there.lost_to : "";
}

bool session_table::refers_to(const plan& pipeline) const noexcept {
  return std::any_of(places_.begin(), places_.end(),
                     [&](const session_record& each) { return each.pipeline == &pipeline && !each.free(); });
}

void session_table::sweep(time_point now) noexcept {
  for (session_record& each : places_) {
    each.closed |= idle(each, now);
  }
}

std::size_t session_table::size() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(places_.begin(), places_.end(), [](const session_record& each) { return !each.closed; }));
}

}  // namespace penstock
