#include "daemon/shard/status_report.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "daemon/shard/report_json.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

using nlohmann::ordered_json;

// `room`: bytes that the body may still grow by. What remains of it.
std::size_t add_pipelines(ordered_json& body, const std::vector<pipeline_report>& of, std::size_t room) {
  constexpr std::size_t left_out_bytes = 64;
  ordered_json& pipelines = body["pipelines"];
  for (const pipeline_report& each : of) {
    ordered_json made = json_of(each);
    const std::size_t bytes = made.dump().size() + 1;
    if (bytes + left_out_bytes > room) {
      body["pipelines_left_out"] = of.size() - pipelines.size();
      return 0;
    }
    room -= bytes;
    pipelines.push_back(std::move(made));
  }
  return room;
}

void add_timing(ordered_json& pipelines, const std::vector<pipeline_report>& of, std::size_t room) {
  constexpr std::string_view key = R"(,"timing_us":)";
  for (std::size_t index = 0; index < of.size(); ++index) {
    ordered_json made = json_of(of[index].timing);
    const std::size_t bytes = made.dump().size() + key.size();
    if (bytes > room) {
      return;
    }
    if (!made.empty()) {
      room -= bytes;
      pipelines[index]["timing_us"] = std::move(made);
    }
  }
}

}  // namespace

std::string report_status(const shard_report& of) {
  ordered_json body = {
      {"server", of.server},
      {"instance", of.instance},
      {"state", of.state},
      {"uptime_s", std::chrono::duration<double>(of.uptime).count()},
      {"configuration", {{"version", of.configuration.version}, {"hash", of.configuration.hash}}},
      {"device",
       {{"backend", of.facts.backend},
        {"name", of.facts.name},
        {"detail", of.facts.detail},
        {"pinned_bytes", of.memory.pinned},
        {"memory_bytes", of.memory.device}}},
      {"requests", json_of(of.counters.requests)},
      {"balanced", of.counters.requests.balanced()},
      {"refused", refused_json(of.counters)},
      {"received", of.counters.received},
      {"repeats", {{"ignored", of.counters.repeats_ignored}, {"answered", of.counters.repeats_answered}}},
      {"replies",
       {{"sent", of.counters.replies_sent},
        {"dropped", of.counters.replies_dropped},
        {"undeliverable", of.counters.replies_undeliverable}}},
      {"control", {{"delayed", of.counters.control_delayed}, {"dropped", of.counters.control_dropped}}},
      {"payload_bytes", {{"in", of.counters.payload_bytes_in}, {"out", of.counters.payload_bytes_out}}},
      {"shard", of.shard},
      {"admin", of.admin},
      {"clients", of.clients.size()},
      {"places", {{"resumed", of.counters.clients_resumed}, {"lost", of.counters.clients_lost}}},
      {"sessions", of.sessions},
      {"shared_memory", {{"arenas", of.shared_memory.arenas}, {"bytes", of.shared_memory.bytes}}},
      {"peer_memory", {{"bytes", of.peer_memory}, {"limit", of.peer_memory_limit}}},
      {"handshakes", {{"succeeded", of.handshakes.succeeded}, {"refused", refused_json(of.handshakes)}}},
      {"slots", {{"total", of.slots}, {"free", of.free_slots}}},
      {"batches_in_flight", of.batches_in_flight},
      {"pipelines", ordered_json::array()}};
  std::size_t room = wire::max_body_bytes - std::min(body.dump().size(), wire::max_body_bytes);
  room = add_pipelines(body, of.pipelines, room);
  add_timing(body["pipelines"], of.pipelines, room);
  return body.dump();
}

}  // namespace penstock
