#include "daemon/shard/report_json.hpp"

#include <chrono>
#include <cmath>
#include <string>
#include <string_view>

#include "daemon/timeline/batch_record.hpp"
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

ordered_json refused_json(const handshake_report& of) {
  ordered_json refused = ordered_json::object();
  for (std::size_t why = 0; why < handshake_refusals; ++why) {
    refused[std::string(name_of(static_cast<handshake_refusal>(why)))] = of.refused[why];
  }
  return refused;
}

ordered_json refused_json(const account& of) {
  ordered_json refused = ordered_json::object();
  for (const auto& [code, count] : of.refused) {
    refused[std::string(wire::name_of(code))] = count;
  }
  return refused;
}

}  // namespace penstock
