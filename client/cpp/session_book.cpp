#include "client/cpp/session_book.hpp"

#include <algorithm>
#include <utility>

namespace penstock::link {

session_book::entry* session_book::entry_of(const session_record& record) {
  const auto found = sessions_.find(&record);
  return found == sessions_.end() ? nullptr : &found->second;
}

void session_book::add(record_pointer record) {
  const session_record* const key = record.get();
  sessions_[key].record = std::move(record);
}

session_book::record_pointer session_book::find(std::string_view pipeline, std::string_view name) const {
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& each) {
    return each.first->pipeline().name == pipeline && each.first->name() == name;
  });
  return found == sessions_.end() ? nullptr : found->second.record;
}

std::vector<session_book::record_pointer> session_book::all() const {
  std::vector<record_pointer> records;
  std::transform(sessions_.begin(), sessions_.end(), std::back_inserter(records),
                 [](const auto& each) { return each.second.record; });
  return records;
}

std::vector<std::uint64_t> session_book::line(const session_record& record) const {
  std::vector<std::uint64_t> ids;
  if (const auto found = sessions_.find(&record); found != sessions_.end()) {
    std::transform(found->second.line.begin(), found->second.line.end(), std::back_inserter(ids),
                   [](const auto& each) { return each.second; });
  }
  return ids;
}

void session_book::joined(const session_record& record, std::uint64_t sequence, std::uint64_t id) {
  if (entry* const found = entry_of(record)) {
    found->line.emplace(sequence, id);
  }
}

bool session_book::left(const session_record& record, std::uint64_t sequence) {
  entry* const found = entry_of(record);
  if (found == nullptr) {
    return false;
  }
  found->line.erase(sequence);
  return found->closing && found->line.empty();
}

void session_book::confirmed(const session_record& record, std::uint64_t sequence) {
  if (entry* const found = entry_of(record)) {
    found->confirmed = std::max(found->confirmed, sequence);
  }
}

session_book::gap session_book::missing(const session_record& record, std::uint64_t expected) {
  entry* const found = entry_of(record);
  // A gap that the daemon has filled since, or that is being filled: every request behind it tells of it once more.
  if (found == nullptr || expected < found->confirmed || found->resent_from == expected) {
    return {};
  }
  const auto first = found->line.find(expected);
  if (first == found->line.end()) {
    return {true, {}};
  }
  found->resent_from = expected;
  gap what;
  std::transform(first, found->line.end(), std::back_inserter(what.ids), [](const auto& each) { return each.second; });
  return what;
}

void session_book::repeated(const session_record& record) {
  if (entry* const found = entry_of(record)) {
    found->resent_from.reset();
  }
}

bool session_book::close(const session_record& record) {
  entry* const found = entry_of(record);
  if (found == nullptr) {
    return false;
  }
  found->closing = true;
  return found->line.empty();
}

bool session_book::is_closing(const session_record& record) const {
  const auto found = sessions_.find(&record);
  return found != sessions_.end() && found->second.closing;
}

}  // namespace penstock::link
