#include "daemon/shard/status_report.hpp"

#include <nlohmann/json.hpp>

#include "proto/status.hpp"

namespace penstock {
namespace {

using nlohmann::ordered_json;

const char* name_of(close_reason reason) noexcept {
  constexpr const char* names[close_reasons] = {"idle", "full", "delay", "extent", "drain"};
  return names[static_cast<std::size_t>(reason)];
}

ordered_json outcomes(const outcome_account& of) {
  ordered_json errors = ordered_json::object();
  for (std::size_t kind = 1; kind < wire::status_kinds; ++kind) {
    errors[std::string(wire::name_of(static_cast<wire::status_kind>(kind)))] = of.errors[kind];
  }
  return {{"accepted", of.accepted}, {"results", of.results}, {"errors", errors}, {"in_flight", of.in_flight}};
}

ordered_json pipeline_json(const plan& what, const pipeline_account& counters) {
  ordered_json closed = ordered_json::object();
  for (std::size_t reason = 0; reason < close_reasons; ++reason) {
    closed[name_of(static_cast<close_reason>(reason))] = counters.closed[reason];
  }
  return {{"name", what.declaration.name}, {"requests", outcomes(counters.requests)},   {"frames", counters.frames},
          {"batches", counters.batches},   {"batched_frames", counters.batched_frames}, {"closed", closed}};
}

}  // namespace

std::string report_status(const status_report& of) {
  ordered_json refused = ordered_json::object();
  for (const auto& [code, count] : of.counters.refused) {
    refused[std::string(wire::name_of(code))] = count;
  }
  ordered_json pipelines = ordered_json::array();
  for (std::size_t index = 0; index < of.plans.size(); ++index) {
    pipelines.push_back(pipeline_json(of.plans[index], of.by_pipeline[index]));
  }
  const ordered_json body = {
      {"server", of.server},
      {"instance", of.instance},
      {"state", of.state},
      {"uptime_s", std::chrono::duration<double>(of.uptime).count()},
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
      {"clients", of.clients},
      {"slots", {{"total", of.slots}, {"free", of.free_slots}}},
      {"batches_in_flight", of.batches_in_flight},
      {"pipelines", pipelines}};
  return body.dump();
}

}  // namespace penstock
