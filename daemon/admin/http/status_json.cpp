#include "daemon/admin/http/status_json.hpp"

#include <chrono>

#include <nlohmann/json.hpp>

#include "daemon/admin/http/seconds.hpp"
#include "daemon/shard/report_json.hpp"
#include "penstock_version.hpp"

namespace penstock {
namespace {

using json = nlohmann::ordered_json;

json configuration_json(const configuration_report& of) {
  return {{"version", of.version}, {"hash", of.hash}};
}

json streams_json(const std::vector<stream_timing>& streams) {
  json list = json::array();
  for (const stream_timing& each : streams) {
    list.push_back({{"stream", list.size()},
                    {"copy_in_ns", each.copy_in.count()},
                    {"compute_ns", each.compute.count()},
                    {"copy_out_ns", each.copy_out.count()},
                    {"batches", each.batches},
                    {"timed_batches", each.timed_batches}});
  }
  return list;
}

// The whole time by buckets, too.
json timing_json(const pipeline_timing& of) {
  json all = json_of(of);
  if (all.contains("total")) {
    json& buckets = all["total"]["buckets"] = json::array();
    of.total.for_each_bucket([&](std::chrono::nanoseconds end, std::uint64_t count) {
      buckets.push_back({std::chrono::duration<double, std::micro>(end).count(), count});
    });
  }
  return all;
}

json pipeline_json(const pipeline_report& of) {
  const auto& batches_of = of.counters.batch_sizes;
  json sizes = json::array();
  for (std::size_t each = 0; each < batches_of.size(); ++each) {
    if (batches_of[each] != 0) {
      const bool last = each + 1 == batches_of.size();
      sizes.push_back({last ? json() : json(std::uint64_t{1} << each), batches_of[each]});
    }
  }
  json made = json_of(of);
  made["batch_sizes"] = sizes;
  made["timing_us"] = timing_json(of.timing);
  return made;
}

json pipelines_json(const std::vector<pipeline_report>& pipelines) {
  json list = json::array();
  for (const pipeline_report& each : pipelines) {
    list.push_back(pipeline_json(each));
  }
  return list;
}

json clients_json(const std::vector<client_report>& clients) {
  json list = json::array();
  for (const client_report& each : clients) {
    list.push_back({{"name", each.name},
                    {"place", each.place},
                    {"requests", each.requests},
                    {"bytes", each.bytes},
                    {"results", each.results},
                    {"dropped", each.dropped}});
  }
  return list;
}

json shard_json(const shard_report& of) {
  const account& counters = of.counters;
  return {{"shard", of.shard},
          {"state", of.state},
          {"instance", of.instance},
          {"uptime_s", seconds(of.uptime)},
          {"configuration", configuration_json(of.configuration)},
          {"device",
           {{"backend", of.facts.backend},
            {"name", of.facts.name},
            {"detail", of.facts.detail},
            {"pinned_bytes", of.memory.pinned},
            {"memory_bytes", of.memory.device},
            {"error", of.device_error}}},
          {"received", counters.received},
          {"requests", json_of(counters.requests)},
          {"refused", refused_json(counters)},
          {"repeats", {{"ignored", counters.repeats_ignored}, {"answered", counters.repeats_answered}}},
          {"replies",
           {{"sent", counters.replies_sent},
            {"dropped", counters.replies_dropped},
            {"undeliverable", counters.replies_undeliverable}}},
          {"control", {{"delayed", counters.control_delayed}, {"dropped", counters.control_dropped}}},
          {"payload_bytes", {{"in", counters.payload_bytes_in}, {"out", counters.payload_bytes_out}}},
          {"handshakes_refused", refused_json(of.handshakes)},
          {"credit", {{"requests", of.credit_requests}, {"bytes", of.credit_bytes}}},
          {"places", {{"resumed", counters.clients_resumed}, {"lost", counters.clients_lost}}},
          {"sessions", {{"open", of.sessions}, {"most", of.max_sessions}}},
          {"shared_memory", {{"arenas", of.shared_memory.arenas}, {"bytes", of.shared_memory.bytes}}},
          {"peer_memory", {{"bytes", of.peer_memory}, {"limit", of.peer_memory_limit}}},
          {"slots", {{"total", of.slots}, {"free", of.free_slots}}},
          {"batches_in_flight", of.batches_in_flight},
          {"batches_done", of.batches_done},
          {"since_completion_s", seconds(of.since_completion)},
          {"standing_still_s", seconds(of.standing_still)},
          {"streams", streams_json(of.streams)},
          {"pipelines", pipelines_json(of.pipelines)},
          {"clients", clients_json(of.clients)}};
}

}  // namespace

configuration_report configuration_of(const shard_answers& shards) {
  const configuration_report* lowest = nullptr;
  for (const auto& each : shards) {
    if (each && (lowest == nullptr || each->configuration.version < lowest->version)) {
      lowest = &each->configuration;
    }
  }
  return lowest == nullptr ? configuration_report{} : *lowest;
}

std::string print_status(const daemon_facts& facts, const shard_answers& shards) {
  json missing = json::array();
  json list = json::array();
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (shards[number]) {
      list.push_back(shard_json(*shards[number]));
    } else {
      missing.push_back(number);
    }
  }
  const json all = {{"server", std::string("penstockd ") + version},
                    {"state", name_of(facts.state)},
                    {"uptime_s", seconds(facts.uptime)},
                    {"start_time_s", std::chrono::duration<double>(facts.started.time_since_epoch()).count()},
                    {"configuration", configuration_json(configuration_of(shards))},
                    {"missing_shards", missing},
                    {"shards", list}};
  // A client's name and a device's error are others' words.
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace penstock
