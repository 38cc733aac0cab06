#include <algorithm>
#include <set>
#include <utility>

#include "client/cpp/exchange.hpp"
#include "client/cpp/outgoing.hpp"

namespace penstock::link {

void exchange::want_arena(std::uint64_t need, time_point now) {
  arena_.want(need, now);
  ask_for_arena(now);
}

void exchange::ask_for_arena(time_point now) {
  if (!arena_.wanted() || !greeting_.ready()) {
    return;
  }
  const std::uint64_t bytes = arena_.size(std::min(options_.shared_bytes, catalogue_->server().shared_bytes));
  if (bytes == 0) {
    arena_.failed("the daemon shares no memory with this client", now);
    return;
  }
  auto message = attach_message(bytes);
  if (socket_.send(message)) {
    arena_.asked(now);
  }
}

void exchange::tend_arena(time_point now) {
  arena_.tend(now);
  if (std::exchange(arena_stirs_, false) && arena_.ended()) {
    lose_arena("the daemon has ended the lease of the shared memory", now);
  }
}

void exchange::handle_attached(const std::vector<zmq::message_t>& parts) {
  const auto body = parts.size() == 2 ? wire::decode_attached(bytes_of(parts[1])) : std::nullopt;
  if (!body) {
    atomic_counters::count(counters_.malformed_replies);
  } else if (!arena_.answered(*body, std::chrono::steady_clock::now())) {
    atomic_counters::count(counters_.unmatched_replies);
  }
}

void exchange::handle_shared_result(const wire::message_header& header, const std::vector<zmq::message_t>& parts) {
  pending_request* const found = requests_.find(header.request_id);
  if (found == nullptr) {
    note_late_reply(header.request_id, /*holds=*/false);
    return;
  }
  payload& place = found->payload;
  auto good = header.frames == found->frames
                  ? read_shared_result(header, parts, found->pipeline, place.output(), place.output_bytes())
                  : std::nullopt;
  if (!good) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  end_well(*found, std::move(*good));
}

void exchange::handle_released(std::uint64_t id) {
  if (pending_request* const found = requests_.find(id)) {
    found->with_daemon = false;
  }
  held_.erase(id);
}

void exchange::note_late_reply(std::uint64_t id, bool holds) {
  atomic_counters::count(counters_.unmatched_replies);
  if (!holds) {
    held_.erase(id);
  }
}

// A second UNKNOWN_REPEAT can't be told from the answer to an earlier repeat. By then the first try may have had its
// result, and its place another use: so that it goes on over the socket, which has no place that could be lost.
void exchange::handle_detour(pending_request& what, wire::status why) {
  const auto now = std::chrono::steady_clock::now();
  if (!what.payload.shared()) {
    return;  // it goes over the socket already
  }
  if (why == wire::status::unknown_arena) {
    lose_arena("the daemon does not know the shared memory any more", now);
    return;
  }
  what.payload.leave_arena();
  what.with_daemon = false;
  if (what.session != nullptr) {
    sessions_.repeated(*what.session);
    send_line(sessions_.line(*what.session), now);
  } else {
    send_again(what, now);
  }
}

void exchange::forget_arena() {
  arena_.forget();
  leave_arena();
}

void exchange::lose_arena(const std::string& why, time_point now) {
  arena_.lost(why, now);
  const std::vector<std::uint64_t> ids = leave_arena();
  std::set<const session_record*> sent;
  for (const std::uint64_t id : ids) {
    pending_request* const each = requests_.find(id);
    if (each == nullptr) {
      continue;
    }
    const std::shared_ptr<session_record> session = each->session;
    if (session == nullptr) {
      send_line({id}, now);
    } else if (sent.insert(session.get()).second) {
      sessions_.repeated(*session);
      send_line(sessions_.line(*session), now);
    }
  }
}

std::vector<std::uint64_t> exchange::leave_arena() {
  std::vector<std::uint64_t> ids = requests_.ids();
  const auto stays = [this](std::uint64_t id) { return !requests_.find(id)->payload.shared(); };
  ids.erase(std::remove_if(ids.begin(), ids.end(), stays), ids.end());
  for (const std::uint64_t id : ids) {
    pending_request& each = *requests_.find(id);
    each.payload.leave_arena();
    each.with_daemon = false;
  }
  held_.clear();  // their blocks are in an arena that has ended
  return ids;
}

// CANCEL finds one that still runs, or has its reply sent again; REJECTED says that there is none. RELEASED may be
// lost, too: those whose reply has come are asked for as well.
void exchange::ask_for_places() {
  for (const auto& [id, each] : held_) {
    zmq::message_t message = bare_message(wire::message_type::cancel, id);
    [[maybe_unused]] const bool sent = socket_.send({&message, 1});
  }
}

}  // namespace penstock::link
