#include "client/cpp/request_table.hpp"

#include <algorithm>

namespace penstock::link {

pending_request* request_table::insert(pending_request&& request) {
  const std::uint64_t id = request.id;
  const auto [at, added] = requests_.try_emplace(id, std::move(request));
  return added ? &at->second : nullptr;
}

pending_request* request_table::find(std::uint64_t id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : &found->second;
}

std::optional<pending_request> request_table::take(std::uint64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) {
    return std::nullopt;
  }
  std::optional<pending_request> taken{std::move(found->second)};
  requests_.erase(found);
  return taken;
}

std::vector<std::uint64_t> request_table::ids() const {
  std::vector<std::pair<time_point, std::uint64_t>> order;
  order.reserve(requests_.size());
  for (const auto& [id, each] : requests_) {
    order.emplace_back(each.submitted, id);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::uint64_t> ids(order.size());
  std::transform(order.begin(), order.end(), ids.begin(), [](const auto& each) { return each.second; });
  return ids;
}

void request_table::set_alarm(pending_request& request, time_point when) {
  if (request.alarm == when) {
    return;
  }
  request.alarm = when;
  if (when != never) {
    alarms_.emplace(when, request.id);
  }
}

pending_request* request_table::due(time_point now) {
  while (!alarms_.empty() && alarms_.top().first <= now) {
    const auto [when, id] = alarms_.top();
    alarms_.pop();
    pending_request* const found = find(id);
    if (found != nullptr && found->alarm == when) {
      found->alarm = never;
      return found;
    }
  }
  return nullptr;
}

}  // namespace penstock::link
