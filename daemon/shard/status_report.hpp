#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/account.hpp"
#include "daemon/timeline/pipeline_timing.hpp"

namespace penstock {

/// What STATUS says of a shard, gathered by the shard at one moment between two turns.
struct status_report {
  std::string server;
  std::string instance;
  std::string state;  ///< "ready" or "draining"
  std::chrono::nanoseconds uptime{};
  const device_facts& facts;
  const account& counters;
  const std::vector<pipeline_account>& by_pipeline;
  std::span<const plan> plans;
  std::uint32_t shard = 0;
  std::size_t clients = 0;
  std::size_t sessions = 0;
  std::size_t slots = 0;
  std::size_t free_slots = 0;
  std::size_t batches_in_flight = 0;
  std::span<const pipeline_timing> timing{};  ///< by pipeline; left out where it is empty
};

/// The JSON body of STATUS; proto/PROTOCOL.md describes it. Where so many pipelines are timed that it would be too
/// large for a message, the last ones' times are left out.
[[nodiscard]] std::string report_status(const status_report& of);

}  // namespace penstock
