#include "daemon/admin/http/health.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "daemon/admin/http/seconds.hpp"

namespace penstock {
namespace {

std::string silent_shards(const shard_answers& shards) {
  std::string found;
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (!shards[number]) {
      found += (found.empty() ? "no answer in time from shard " : ", ") + std::to_string(number);
    }
  }
  return found;
}

health_check check(std::string name, std::string wrong, std::string right) {
  const bool passed = wrong.empty();
  return {std::move(name), passed, passed ? std::move(right) : std::move(wrong)};
}

health_check device_check(const shard_answers& shards) {
  std::string wrong;
  for (const auto& each : shards) {
    if (each && !each->device_error.empty()) {
      wrong += fmt::format("{}the device of shard {} failed: {}", wrong.empty() ? "" : "; ", each->shard,
                           each->device_error);
    }
  }
  return check("device", std::move(wrong), "no error");
}

health_check places_check(const shard_answers& shards) {
  std::string wrong;
  for (const auto& each : shards) {
    if (each && (each->short_of_clients || each->short_of_sessions)) {
      wrong += fmt::format(
          "{}shard {} has no room for another {}", wrong.empty() ? "" : "; ", each->shard,
          each->short_of_clients ? "client (clients.max_clients, limits.memory)" : "session (sessions.max_sessions)");
    }
  }
  return check("places", std::move(wrong), "nobody is turned away");
}

health_check progress_check(const shard_answers& shards, std::chrono::nanoseconds patience) {
  std::string wrong;
  std::size_t idle = 0;
  std::chrono::nanoseconds longest{0};
  for (const auto& each : shards) {
    if (!each) {
      continue;
    }
    idle += each->batches_in_flight == 0 ? 1U : 0U;
    longest = std::max(longest, each->standing_still);
    if (each->standing_still > patience) {
      wrong +=
          fmt::format("{}shard {} has {} batches on its device and finished none for {:.1f} s",
                      wrong.empty() ? "" : "; ", each->shard, each->batches_in_flight, seconds(each->standing_still));
    }
  }
  return check("progress", std::move(wrong),
               idle == shards.size() ? "idle" : fmt::format("the last batch was done {:.3f} s ago", seconds(longest)));
}

}  // namespace

health_check liveness_of(const shard_answers& shards, daemon_state state, const daemon_vitals& vitals) {
  const std::string silent = silent_shards(shards);
  return check(
      "shards",
      state == daemon_state::draining ? ""
      : silent.empty()                ? vitals.dead
                                      : silent,
      state == daemon_state::draining ? "draining" : fmt::format("{} of {} answer", shards.size(), shards.size()));
}

std::vector<health_check> readiness_of(const shard_answers& shards, daemon_state state,
                                       std::chrono::nanoseconds patience, const daemon_vitals& vitals) {
  return {check("started", state == daemon_state::starting ? "still starting" : "", "all shards serve"),
          check("not draining", state == daemon_state::draining ? "draining: new requests are answered SHUTDOWN" : "",
                "takes new requests"),
          check("shards", silent_shards(shards), fmt::format("{} of {} answer", shards.size(), shards.size())),
          device_check(shards),
          progress_check(shards, patience),
          places_check(shards),
          check("descriptors", vitals.shortage, "new connections find one"),
          check("threads", vitals.late, "each gives signs of life")};
}

bool all_passed(const std::vector<health_check>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const health_check& each) { return each.passed; });
}

std::string print_checks(const std::vector<health_check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const health_check& each : checks) {
    list.push_back({{"name", each.name}, {"passed", each.passed}, {"reason", each.reason}});
  }
  return nlohmann::ordered_json{{"ready", all_passed(checks)}, {"checks", list}}.dump() + "\n";
}

}  // namespace penstock
