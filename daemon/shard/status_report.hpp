#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/account.hpp"

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
  std::size_t clients = 0;
  std::size_t slots = 0;
  std::size_t free_slots = 0;
  std::size_t batches_in_flight = 0;
};

/// The JSON body of STATUS; proto/PROTOCOL.md describes it.
[[nodiscard]] std::string report_status(const status_report& of);

}  // namespace penstock
