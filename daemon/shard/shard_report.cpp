// What a shard tells of itself.
#include <algorithm>
#include <chrono>

#include "daemon/shard/shard.hpp"
#include "penstock_version.hpp"

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;

}  // namespace

timeline_page shard::trace(std::uint64_t cursor) {
  return pages_.write(timeline_.batches(), cursor, clock::now());
}

shard_pulse shard::pulse() const {
  shard_pulse made{.standing_still = dispatcher_.standing_still(clock::now()),
                   .results = counters_.requests.results,
                   .in_flight = counters_.requests.in_flight,
                   .pipelines = served_.in_order.size()};
  clients_.for_each([&](const client_record& each) { made.clients += each.gone ? 0 : 1; });
  return made;
}

shard_report shard::report() {
  const time_point now = clock::now();
  const fault sick = device_.health();
  shard_report made{.server = std::string("penstockd ") + version,
                    .instance = instance_,
                    .state = state_ == state::serving ? "ready" : "draining",
                    .uptime = now - started_,
                    .configuration = configuration_,
                    .facts = device_.facts(),
                    .memory = device_.in_use(),
                    .device_error = dispatcher_.lost() ? dispatcher_.lost()->error
                                    : sick             ? sick.name
                                                       : "",
                    .shard = number_,
                    .admin = among_ != nullptr ? among_->admin() : std::vector<std::string>{},
                    .counters = counters_,
                    .pipelines = {},
                    .clients = {},
                    .credit_requests = how_.clients.credit_requests,
                    .credit_bytes = how_.clients.credit_bytes,
                    .sessions = sessions_.size(),
                    .max_sessions = sessions_.places(),
                    .short_of_clients = reception_.short_of_clients(),
                    .short_of_sessions = reception_.short_of_sessions(),
                    .slots = ring_.size(),
                    .free_slots = ring_.free(),
                    .batches_in_flight = wheel_.in_flight(),
                    .batches_done = dispatcher_.batches_done(),
                    .since_completion = now - std::max(started_, dispatcher_.last_done()),
                    .standing_still = dispatcher_.standing_still(now),
                    .streams = timeline_.streams(),
                    .handshakes = socket_.handshakes(),
                    .shared_memory = keeper_ != nullptr ? keeper_->in_use() : shared_memory_use{},
                    .peer_memory = memory_.used(),
                    .peer_memory_limit = memory_.limit()};
  for (const plan* const each : served_.in_order) {
    made.pipelines.push_back({each->declaration.name, book_.by_pipeline()[each->id], timeline_.timing()[each->id]});
  }
  clients_.for_each([&](const client_record& each) {
    if (!each.gone) {
      made.clients.push_back({.name = each.name,
                              .place = each.index,
                              .requests = each.requests,
                              .bytes = each.bytes,
                              .results = each.results,
                              .dropped = egress_.dropped(each)});
    }
  });
  return made;
}

}  // namespace penstock
