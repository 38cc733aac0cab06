#include <algorithm>
#include <utility>

#include "client/cpp/exchange.hpp"
#include "client/cpp/local_error.hpp"
#include "client/cpp/outgoing.hpp"

namespace penstock::link {

void exchange::open(session_opening&& what, time_point now) {
  const std::string pipeline = what.record->pipeline().name;
  const std::string name = what.record->name();
  const auto same_name = sessions_.find(pipeline, name);
  const bool being_opened = std::any_of(openings_.begin(), openings_.end(), [&](const auto& each) {
    return each.second.record->pipeline().name == pipeline && each.second.record->name() == name;
  });
  if (being_opened || (same_name != nullptr && !sessions_.is_closing(*same_name))) {
    what.opened.set_exception(std::make_exception_ptr(local_error(
        wire::status::rejected, "this client has a session \"" + name + "\" open on \"" + pipeline + "\" already")));
    return;
  }
  what.patience = options_.retry_after;
  send(openings_.insert_or_assign(what.id, std::move(what)).first->second, now);
}

void exchange::send(session_opening& what, time_point now) {
  what.repeat = never;
  const auto pipeline = catalogue_->find(what.record->pipeline().name);
  // A session of that name that is closing is closed first: else the daemon would find that one.
  const bool waits = sessions_.find(what.record->pipeline().name, what.record->name()) != nullptr;
  if (pipeline == nullptr || waits || !greeting_.ready()) {
    return;
  }
  auto message = open_message(what.id, pipeline->id, what.record->name());
  if (socket_.send(message)) {
    what.sent = true;
    what.repeat = now + what.patience;
    what.patience = std::min(2 * what.patience, options_.retry_limit);
  }
}

void exchange::tend_openings(time_point now) {
  for (auto each = openings_.begin(); each != openings_.end();) {
    session_opening& what = each->second;
    if (what.deadline <= now) {
      what.opened.set_exception(
          std::make_exception_ptr(local_error(wire::status::expired, "no answer from " + options_.url + " in time")));
      each = openings_.erase(each);
      continue;
    }
    if (what.repeat <= now) {
      if (now - last_heard_ >= options_.retry_after) {
        greeting_.silent(now);
      }
      send(what, now);
    }
    ++each;
  }
}

void exchange::handle_opened(const wire::message_header& header, const std::vector<zmq::message_t>& parts) {
  const auto asked = openings_.find(header.request_id);
  if (asked == openings_.end()) {
    atomic_counters::count(counters_.unmatched_replies);
    return;
  }
  const auto body = parts.size() == 2 ? wire::decode_session_opened(bytes_of(parts[1])) : std::nullopt;
  if (!body || body->session == 0) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  session_opening& what = asked->second;
  if (body->next_sequence == 0) {
    what.record->set_number(body->session);
    sessions_.add(what.record);
    what.opened.set_value();
    openings_.erase(asked);
    return;
  }
  // An older session of this name, whose CLOSE was lost: its state is not what a new one begins with.
  if (!std::exchange(what.found_old, true)) {
    zmq::message_t message = close_message(body->session);
    [[maybe_unused]] const bool sent = socket_.send({&message, 1});  // without a connection it is asked again anyway
    send(what, std::chrono::steady_clock::now());
    return;
  }
  what.opened.set_exception(std::make_exception_ptr(local_error(
      wire::status::rejected, "the daemon does not let go of an older session \"" + what.record->name() + "\"")));
  openings_.erase(asked);
}

void exchange::close(const session_closing& what) {
  if (sessions_.close(*what.record)) {
    let_go(*what.record);
  }
}

void exchange::let_go(const session_record& record) {
  const std::uint32_t number = record.number();
  sessions_.remove(record);
  zmq::message_t message = close_message(number);
  // Without a connection it is left to the daemon, which drops what is idle, or to the next session of that name.
  [[maybe_unused]] const bool sent = greeting_.ready() && socket_.send({&message, 1});
  const auto now = std::chrono::steady_clock::now();
  for (auto& [id, each] : openings_) {
    if (!each.sent) {
      send(each, now);
    }
  }
}

void exchange::lose(const std::shared_ptr<session_record>& record, const std::string& why, bool daemon_holds_it) {
  const request_error lost =
      local_error(wire::status::session_lost, "the session \"" + record->name() + "\" is lost: " + why);
  record->end(lost);
  const std::vector<std::uint64_t> ids = sessions_.line(*record);
  if (daemon_holds_it && sessions_.holds(*record)) {
    let_go(*record);
  }
  sessions_.remove(*record);
  for (const std::uint64_t id : ids) {
    finish(id, lost);
  }
}

void exchange::lose_all(const std::string& why) {
  for (const auto& record : sessions_.all()) {
    lose(record, why, /*daemon_holds_it=*/false);
  }
}

void exchange::repeat_sessions(time_point now) {
  for (const auto& record : sessions_.all()) {
    sessions_.repeated(*record);
    sessions_.resume_at_once(*record);
    send_line(sessions_.line(*record), now);
  }
}

bool exchange::held_back(const pending_request& what) const {
  return what.session != nullptr && sessions_.pauses(*what.session, what.sequence);
}

void exchange::send_line(const std::vector<std::uint64_t>& ids, time_point now) {
  for (const std::uint64_t id : ids) {
    pending_request* const each = requests_.find(id);
    if (each != nullptr && !expire(*each, now)) {
      each->patience = options_.retry_after;
      send_again(*each, now);
    }
  }
}

void exchange::handle_gap(const std::shared_ptr<session_record>& record, std::uint64_t expected) {
  const session_book::gap gap = sessions_.missing(*record, expected);
  if (gap.lost) {
    lose(record, "frame " + std::to_string(expected) + " never reached the daemon, and its request has ended",
         /*daemon_holds_it=*/true);
  } else {
    send_line(gap.ids, std::chrono::steady_clock::now());
  }
}

void exchange::handle_session_error(pending_request& what, const wire::message_header& header, daemon_error&& error) {
  const std::shared_ptr<session_record> record = what.session;
  if (header.code == wire::status::sequence_gap) {
    handle_gap(record, header.sequence);
    return;
  }
  if (header.code == wire::status::no_credit) {
    sessions_.refused(*record, what.sequence, std::chrono::steady_clock::now(), options_.retry_after,
                      options_.retry_limit);
    return;
  }
  if (header.code == wire::status::rejected && what.cancelled) {
    return;  // CANCEL found nothing, because the request was not taken: both are sent again
  }
  const auto kind = wire::kind_of(header.code);
  const bool was_taken = kind == wire::status_kind::expired || kind == wire::status_kind::cancelled ||
                         header.code == wire::status::reply_gone;
  if (was_taken) {
    sessions_.confirmed(*record, what.sequence + what.frames);
    end_badly(what, std::move(error));
    return;
  }
  const std::string why = error.error.what();
  const bool daemon_holds_it = kind != wire::status_kind::session_lost;
  end_badly(what, std::move(error));
  lose(record, why, daemon_holds_it);
}

}  // namespace penstock::link
