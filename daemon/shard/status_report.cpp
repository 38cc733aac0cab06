#include "daemon/shard/status_report.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "daemon/timeline/batch_record.hpp"
#include "proto/message.hpp"
#include "proto/status.hpp"

namespace penstock {
namespace {

using nlohmann::ordered_json;

ordered_json outcomes(const outcome_account& of) {
  ordered_json errors = ordered_json::object();
  for (std::size_t kind = 1; kind < wire::status_kinds; ++kind) {
    errors[std::string(wire::name_of(static_cast<wire::status_kind>(kind)))] = of.errors[kind];
  }
  return {{"accepted", of.accepted}, {"results", of.results}, {"errors", errors}, {"in_flight", of.in_flight}};
}

ordered_json pipeline_json(const pipeline_report& of) {
  const pipeline_account& counters = of.counters;
  ordered_json closed = ordered_json::object();
  for (std::size_t reason = 0; reason < close_reasons; ++reason) {
    closed[std::string(name_of(static_cast<close_reason>(reason)))] = counters.closed[reason];
  }
  return {{"name", of.name},
          {"requests", outcomes(counters.requests)},
          {"frames", counters.frames},
          {"batches", counters.batches},
          {"batched_frames", counters.batched_frames},
          {"closed", closed}};
}

ordered_json handshakes_json(const handshake_report& of) {
  ordered_json refused = ordered_json::object();
  for (std::size_t why = 0; why < handshake_refusals; ++why) {
    refused[std::string(name_of(static_cast<handshake_refusal>(why)))] = of.refused[why];
  }
  return {{"succeeded", of.succeeded}, {"refused", refused}};
}

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

ordered_json timing_json(const pipeline_timing& of) {
  ordered_json all = ordered_json::object();
  of.for_each([&](std::string_view name, const time_histogram& times) {
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

// `room`: bytes that the body may still grow by.
void add_timing(ordered_json& pipelines, const std::vector<pipeline_report>& of, std::size_t room) {
  constexpr std::string_view key = R"(,"timing_us":)";
  for (std::size_t index = 0; index < of.size(); ++index) {
    ordered_json made = timing_json(of[index].timing);
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
  ordered_json refused = ordered_json::object();
  for (const auto& [code, count] : of.counters.refused) {
    refused[std::string(wire::name_of(code))] = count;
  }
  ordered_json pipelines = ordered_json::array();
  for (const pipeline_report& each : of.pipelines) {
    pipelines.push_back(pipeline_json(each));
  }
  ordered_json body = {
      {"server", of.server},
      {"instance", of.instance},
      {"state", of.state},
      {"uptime_s", std::chrono::duration<double>(of.uptime).count()},
      {"configuration", {{"version", of.configuration.version}, {"hash", of.configuration.hash}}},
      {"device", {{"backend", of.facts.backend}, {"name", of.facts.name}, {"detail", of.facts.detail}}},
      {"requests", outcomes(of.counters.requests)},
      {"balanced", of.counters.requests.balanced()},
      {"refused", refused},
      {"received", of.counters.received},
      {"repeats", {{"ignored", of.counters.repeats_ignored}, {"answered", of.counters.repeats_answered}}},
      {"replies",
       {{"sent", of.counters.replies_sent},
        {"dropped", of.counters.replies_dropped},
        {"undeliverable", of.counters.replies_undeliverable}}},
      {"payload_bytes", {{"in", of.counters.payload_bytes_in}, {"out", of.counters.payload_bytes_out}}},
      {"shard", of.shard},
      {"clients", of.clients.size()},
      {"sessions", of.sessions},
      {"shared_memory", {{"arenas", of.shared_memory.arenas}, {"bytes", of.shared_memory.bytes}}},
      {"handshakes", handshakes_json(of.handshakes)},
      {"slots", {{"total", of.slots}, {"free", of.free_slots}}},
      {"batches_in_flight", of.batches_in_flight},
      {"pipelines", pipelines}};
  const std::size_t bytes = body.dump().size();
  add_timing(body["pipelines"], of.pipelines, wire::max_body_bytes - std::min(bytes, wire::max_body_bytes));
  return body.dump();
}

}  // namespace penstock
