#include "client/cpp/subscription_table.hpp"

#include <algorithm>
#include <utility>

#include "client/cpp/errors.hpp"
#include "client/cpp/messages.hpp"

namespace penstock::link {

void subscription_table::open(subscription_opening&& opening, time_point now) {
  entry& made = entries_[opening.id];
  made.feed = std::move(opening.feed);
  made.granted.emplace(std::move(opening.granted));
  made.deadline = opening.deadline;
  made.patience = options_.retry_after;
  send(opening.id, made, now);
}

void subscription_table::send(std::uint64_t id, entry& each, time_point now) {
  each.due = never;
  auto message = subscribe_message(id, each.feed->wanted());
  if (handshake_.ready() && socket_.send(message)) {
    each.due = now + each.patience;
    each.patience = std::min(2 * each.patience, options_.retry_limit);
  }
}

void subscription_table::send_unsubscribe(std::uint64_t id) {
  zmq::message_t message = bare_message(wire::message_type::unsubscribe, id);
  [[maybe_unused]] const bool sent = handshake_.ready() && socket_.send({&message, 1});
}

void subscription_table::close(std::uint64_t id) {
  if (const auto found = entries_.find(id); found != entries_.end()) {
    found->second.feed->end(std::nullopt);
    entries_.erase(found);
    send_unsubscribe(id);
  }
}

void subscription_table::subscribe_again(bool anew, time_point now) {
  for (auto& [id, each] : entries_) {
    if (anew) {
      each.feed->restart();
    }
    each.asks = true;
    each.patience = options_.retry_after;
    send(id, each, now);
  }
}

// The daemon looks every few seconds whether a client that is silent is there. Where even that does not come, the
// connection or the daemon may be gone.
void subscription_table::tend(time_point now, time_point last_heard) {
  for (auto each = entries_.begin(); each != entries_.end();) {
    auto& [id, asked] = *each;
    if (asked.granted && asked.deadline <= now) {
      asked.granted->set_exception(
          std::make_exception_ptr(local_error(wire::status::expired, "no answer from " + options_.url + " in time")));
      send_unsubscribe(id);  // the daemon may have it
      each = entries_.erase(each);
      continue;
    }
    if (asked.due <= now) {
      if (now - last_heard >= (asked.asks ? options_.retry_after : options_.retry_limit)) {
        handshake_.silent(now);
      }
      if (asked.asks) {
        send(id, asked, now);
      } else {
        asked.due = now + options_.retry_limit;
      }
    }
    ++each;
  }
}

time_point subscription_table::next_due() const {
  time_point due = never;
  for (const auto& [id, each] : entries_) {
    due = std::min({due, each.due, each.granted ? each.deadline : never});
  }
  return due;
}

void subscription_table::handle_subscribed(const wire::message_header& header,
                                           const std::vector<zmq::message_t>& parts) {
  const auto now = std::chrono::steady_clock::now();
  entry* const found = find(header.request_id, now);
  if (found == nullptr) {
    return;
  }
  const auto body = parts.size() == 2 ? wire::decode_subscribed(bytes_of(parts[1])) : std::nullopt;
  if (!body) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  found->asks = false;
  found->due = now + options_.retry_limit;
  if (found->granted) {
    found->granted->set_value(body->queue_bytes);
    found->granted.reset();
  }
}

// What comes of a subscription that nobody has any more: UNSUBSCRIBE is on its way, or was lost.
subscription_table::entry* subscription_table::find(std::uint64_t id, time_point now) {
  const auto found = entries_.find(id);
  if (found != entries_.end()) {
    return &found->second;
  }
  atomic_counters::count(counters_.unmatched_replies);
  if (now >= unsubscribed_at_ + std::chrono::seconds{1} || unsubscribed_at_ == time_point::min()) {
    unsubscribed_at_ = now;
    send_unsubscribe(id);
  }
  return nullptr;
}

void subscription_table::handle_publisher(const wire::message_header& header,
                                          const std::vector<zmq::message_t>& parts) {
  entry* const found = find(header.request_id, std::chrono::steady_clock::now());
  if (found == nullptr) {
    return;
  }
  auto body = parts.size() == 2 ? wire::decode_publisher(bytes_of(parts[1])) : std::nullopt;
  if (!body) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  found->feed->hear(std::move(*body));
}

void subscription_table::handle_published(const wire::message_header& header, std::vector<zmq::message_t>& parts) {
  entry* const found = find(header.request_id, std::chrono::steady_clock::now());
  if (found == nullptr) {
    return;
  }
  const std::shared_ptr<feed> kept = found->feed;
  try {
    if (!kept->take_in(header, parts)) {
      atomic_counters::count(counters_.malformed_replies);
    }
  } catch (...) {
    atomic_counters::count(counters_.thrown);
  }
}

bool subscription_table::handle_error(std::uint64_t id, request_error& error) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return false;
  }
  if (found->second.granted) {
    found->second.granted->set_exception(std::make_exception_ptr(std::move(error)));
  } else {
    found->second.feed->end(std::move(error));
  }
  entries_.erase(found);
  return true;
}

void subscription_table::end_all(const request_error& error) {
  for (auto& [id, each] : entries_) {
    if (each.granted) {
      each.granted->set_exception(std::make_exception_ptr(error));
    }
    each.feed->end(error);
  }
  entries_.clear();
}

}  // namespace penstock::link
