#include "daemon/telemetry/report.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/telemetry/timeline.hpp"
#include "penstock_version.hpp"
#include "proto/message.hpp"
#include "proto/status.hpp"

namespace penstock {
namespace {

using nlohmann::ordered_json;

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

ordered_json json_of(const outcome_account& requests) {
  ordered_json errors = ordered_json::object();
  for (std::size_t kind = 1; kind < wire::status_kinds; ++kind) {
    errors[std::string(wire::name_of(static_cast<wire::status_kind>(kind)))] = requests.errors[kind];
  }
  return {{"accepted", requests.accepted},
          {"results", requests.results},
          {"errors", errors},
          {"in_flight", requests.in_flight}};
}

ordered_json json_of(const pipeline_report& pipeline) {
  const pipeline_account& counters = pipeline.counters;
  ordered_json closed = ordered_json::object();
  for (std::size_t reason = 0; reason < close_reasons; ++reason) {
    closed[std::string(name_of(static_cast<close_reason>(reason)))] = counters.closed[reason];
  }
  return {{"name", pipeline.name},
          {"requests", json_of(counters.requests)},
          {"frames", counters.frames},
          {"batches", counters.batches},
          {"batched_frames", counters.batched_frames},
          {"refused", counters.refused},
          {"closed", closed}};
}

ordered_json json_of(const pipeline_timing& timing) {
  ordered_json all = ordered_json::object();
  timing.for_each([&](std::string_view name, const time_histogram& times) {
    if (times.count() != 0) {
      all[std::string(name)] = {{"count", times.count()},
                                {"p50", microseconds(times.quantile(0.5))},
                                {"p90", microseconds(times.quantile(0.9))},
                                {"p99", microseconds(times.quantile(0.99))},
                                {"max", microseconds(times.max())},
                                {"sum", std::round(times.sum_ns() / 1000)}};
    }
  });
  return all;
}

ordered_json json_of(const std::vector<refused_pipeline>& refused) {
  ordered_json list = ordered_json::array();
  for (const refused_pipeline& each : refused) {
    list.push_back({{"pipeline", each.name},
                    {"stages", each.stages},
                    {"deaths", each.deaths},
                    {"error", each.error},
                    {"reason", each.reason}});
  }
  return list;
}

ordered_json json_of(const std::vector<source_report>& sources) {
  ordered_json list = ordered_json::array();
  for (const source_report& each : sources) {
    list.push_back(json_of(each));
  }
  return list;
}

ordered_json json_of(const std::vector<sink_report>& sinks) {
  ordered_json list = ordered_json::array();
  for (const sink_report& each : sinks) {
    list.push_back(json_of(each));
  }
  return list;
}

ordered_json refused_json(const handshake_report& handshakes) {
  ordered_json refused = ordered_json::object();
  for (std::size_t why = 0; why < handshake_refusals; ++why) {
    refused[std::string(name_of(static_cast<handshake_refusal>(why)))] = handshakes.refused[why];
  }
  return refused;
}

ordered_json subscriptions_json(const shard_report& report) {
  return {{"open", report.subscriptions.open},
          {"published", report.counters.results_published},
          {"dropped", report.counters.results_lost},
          {"withheld", report.counters.results_withheld},
          {"queued_bytes", report.subscriptions.queued_bytes}};
}

ordered_json refused_json(const account& counters) {
  ordered_json refused = ordered_json::object();
  for (const auto& [code, count] : counters.refused) {
    refused[std::string(wire::name_of(code))] = count;
  }
  return refused;
}

namespace {

// `room`: bytes that the body may still grow by. What remains of it.
std::size_t add_pipelines(ordered_json& body, const std::vector<pipeline_report>& reports, std::size_t room) {
  constexpr std::size_t left_out_bytes = 64;
  ordered_json& pipelines = body["pipelines"];
  for (const pipeline_report& each : reports) {
    ordered_json made = json_of(each);
    const std::size_t bytes = made.dump().size() + 1;
    if (bytes + left_out_bytes > room) {
      body["pipelines_left_out"] = reports.size() - pipelines.size();
      return 0;
    }
    room -= bytes;
    pipelines.push_back(std::move(made));
  }
  return room;
}

void add_timing(ordered_json& pipelines, const std::vector<pipeline_report>& reports, std::size_t room) {
  constexpr std::string_view key = R"(,"timing_us":)";
  for (std::size_t index = 0; index < reports.size(); ++index) {
    ordered_json made = json_of(reports[index].timing);
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

std::string report_status(const shard_report& report) {
  ordered_json body = {
      {"server", report.server},
      {"instance", report.instance},
      {"state", report.state},
      {"uptime_s", std::chrono::duration<double>(report.uptime).count()},
      {"configuration", {{"version", report.configuration.version}, {"hash", report.configuration.hash}}},
      {"device",
       {{"backend", report.facts.backend},
        {"name", report.facts.name},
        {"detail", report.facts.detail},
        {"pinned_bytes", report.memory.pinned},
        {"memory_bytes", report.memory.device}}},
      {"requests", json_of(report.counters.requests)},
      {"balanced", report.counters.requests.balanced()},
      {"refused", refused_json(report.counters)},
      {"received", report.counters.received},
      {"repeats", {{"ignored", report.counters.repeats_ignored}, {"answered", report.counters.repeats_answered}}},
      {"replies",
       {{"sent", report.counters.replies_sent},
        {"dropped", report.counters.replies_dropped},
        {"undeliverable", report.counters.replies_undeliverable}}},
      {"subscriptions", subscriptions_json(report)},
      {"control", {{"delayed", report.counters.control_delayed}, {"dropped", report.counters.control_dropped}}},
      {"payload_bytes", {{"in", report.counters.payload_bytes_in}, {"out", report.counters.payload_bytes_out}}},
      {"shard", report.shard},
      {"admin", report.admin},
      {"clients", report.clients.size()},
      {"places", {{"resumed", report.counters.clients_resumed}, {"lost", report.counters.clients_lost}}},
      {"sessions", report.sessions},
      {"shared_memory",
       {{"arenas", report.shared_memory.arenas},
        {"bytes", report.shared_memory.bytes},
        {"device_bytes", report.shared_memory.device_bytes}}},
      {"copied_bytes",
       {{"in", report.copied.in}, {"out", report.copied.out}, {"within_device", report.copied.within_device}}},
      {"peer_memory", {{"bytes", report.peer_memory}, {"limit", report.peer_memory_limit}}},
      {"handshakes", {{"succeeded", report.handshakes.succeeded}, {"refused", refused_json(report.handshakes)}}},
      {"slots", {{"total", report.slots}, {"free", report.free_slots}}},
      {"batches_in_flight", report.batches_in_flight},
      {"pipelines", ordered_json::array()}};
  if (!report.device_error.empty()) {
    body["device"]["error"] = report.device_error;
    body["device"]["suspects"] = report.suspects;
  }
  if (!report.refused.empty()) {
    body["quarantine"] = json_of(report.refused);
  }
  if (!report.sources.empty()) {
    body["sources"] = json_of(report.sources);
    // So many sources are told of over HTTP alone.
    if (body.dump().size() > wire::max_body_bytes / 2) {
      body.erase("sources");
      body["sources_left_out"] = report.sources.size();
    }
  }
  if (!report.sinks.empty()) {
    body["sinks"] = json_of(report.sinks);
    if (body.dump().size() > wire::max_body_bytes / 2) {
      body.erase("sinks");
      body["sinks_left_out"] = report.sinks.size();
    }
  }
  std::size_t room = wire::max_body_bytes - std::min(body.dump().size(), wire::max_body_bytes);
  room = add_pipelines(body, report.pipelines, room);
  add_timing(body["pipelines"], report.pipelines, room);
  return body.dump();
}

}  // namespace penstock
