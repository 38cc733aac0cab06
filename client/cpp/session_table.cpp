#include "client/cpp/session_table.hpp"

#include <algorithm>
#include <utility>

namespace penstock::link {
namespace {

constexpr std::chrono::milliseconds longest_first_pause{100};

}  // namespace

session_table::entry* session_table::entry_of(const session_record& record) {
  const auto found = sessions_.find(&record);
  return found == sessions_.end() ? nullptr : &found->second;
}

std::vector<std::uint64_t> session_table::ids_from(const entry& session, std::uint64_t sequence) {
  std::vector<std::uint64_t> ids;
  std::transform(session.line.lower_bound(sequence), session.line.end(), std::back_inserter(ids),
                 [](const auto& each) { return each.second; });
  return ids;
}

void session_table::add(record_pointer record) {
  const session_record* const key = record.get();
  sessions_[key].record = std::move(record);
}

session_table::record_pointer session_table::find(std::string_view pipeline, std::string_view name) const {
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& each) {
    return each.first->pipeline().name == pipeline && each.first->name() == name;
  });
  return found == sessions_.end() ? nullptr : found->second.record;
}

std::vector<session_table::record_pointer> session_table::all() const {
  std::vector<record_pointer> records;
  std::transform(sessions_.begin(), sessions_.end(), std::back_inserter(records),
                 [](const auto& each) { return each.second.record; });
  return records;
}

std::vector<std::uint64_t> session_table::line(const session_record& record) const {
  const auto found = sessions_.find(&record);
  return found == sessions_.end() ? std::vector<std::uint64_t>{} : ids_from(found->second, 0);
}

void session_table::add_request(const session_record& record, std::uint64_t sequence, std::uint64_t id) {
  if (entry* const found = entry_of(record)) {
    found->line.emplace(sequence, id);
  }
}

bool session_table::remove_request(const session_record& record, std::uint64_t sequence) {
  entry* const found = entry_of(record);
  if (found == nullptr) {
    return false;
  }
  found->line.erase(sequence);
  return found->closing && found->line.empty();
}

void session_table::confirmed(const session_record& record, std::uint64_t sequence) {
  if (entry* const found = entry_of(record)) {
    found->confirmed = std::max(found->confirmed, sequence);
  }
}

session_table::gap session_table::missing(const session_record& record, std::uint64_t expected) {
  entry* const found = entry_of(record);
  // Every request behind a gap reports it: ignore what was filled since, or is being filled.
  if (found == nullptr || expected < found->confirmed || found->resent_from == expected || pauses_.contains(&record)) {
    return {};
  }
  if (!found->line.contains(expected)) {
    return {true, {}};
  }
  found->resent_from = expected;
  return {false, ids_from(*found, expected)};
}

void session_table::repeated(const session_record& record) {
  if (entry* const found = entry_of(record)) {
    found->resent_from.reset();
  }
}

void session_table::refused(const session_record& record, std::uint64_t sequence, time_point now,
                            std::chrono::nanoseconds first_pause, std::chrono::nanoseconds pause_limit) {
  entry* const found = entry_of(record);
  if (found == nullptr || sequence < found->confirmed || pauses_.contains(&record)) {
    return;
  }
  const bool again = std::exchange(found->refused, sequence) == sequence;
  found->patience = again ? std::min(2 * found->patience, pause_limit)
                          : std::min<std::chrono::nanoseconds>(first_pause, longest_first_pause);
  pauses_[&record] = {sequence, now + found->patience};
}

bool session_table::pauses(const session_record& record, std::uint64_t sequence) const {
  const auto found = pauses_.find(&record);
  return found != pauses_.end() && sequence >= found->second.sequence;
}

time_point session_table::next_resume() const {
  time_point next = never;
  for (const auto& [record, each] : pauses_) {
    next = std::min(next, each.until);
  }
  return next;
}

std::vector<std::uint64_t> session_table::resume(time_point now) {
  std::vector<std::uint64_t> ids;
  for (auto each = pauses_.begin(); each != pauses_.end();) {
    if (each->second.until > now) {
      ++each;
      continue;
    }
    entry& session = sessions_.at(each->first);
    if (session.line.contains(each->second.sequence)) {
      session.resent_from = each->second.sequence;  // late reports of earlier gaps ask for nothing
    }
    const auto line = ids_from(session, each->second.sequence);
    ids.insert(ids.end(), line.begin(), line.end());
    each = pauses_.erase(each);
  }
  return ids;
}

void session_table::remove(const session_record& record) {
  sessions_.erase(&record);
  pauses_.erase(&record);
}

bool session_table::close(const session_record& record) {
  entry* const found = entry_of(record);
  if (found == nullptr) {
    return false;
  }
  found->closing = true;
  return found->line.empty();
}

bool session_table::is_closing(const session_record& record) const {
  const auto found = sessions_.find(&record);
  return found != sessions_.end() && found->second.closing;
}

}  // namespace penstock::link
