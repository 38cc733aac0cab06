#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/request/account.hpp"
#include "daemon/security/handshake_account.hpp"
#include "daemon/shared_memory/shared_memory_use.hpp"
#include "daemon/timeline/pipeline_timing.hpp"
#include "daemon/timeline/stream_timing.hpp"

namespace penstock {

/// What one pipeline did.
struct pipeline_report {
  std::string name;
  pipeline_account counters;
  pipeline_timing timing;
};

/// What one client holds.
struct client_report {
  std::string name;            ///< as it said in its HELLO
  std::uint32_t place = 0;     ///< in the shard's table
  std::uint32_t requests = 0;  ///< in flight
  std::size_t bytes = 0;       ///< in flight
  std::uint64_t results = 0;   ///< since its HELLO
  std::uint64_t dropped = 0;   ///< replies that did not fit into its queue
};

/// Which configuration is served.
struct configuration_report {
  std::uint64_t version = 1;  ///< 1 at start-up, one more with each reload
  std::string hash;           ///< of its effective text, as --print-config prints it; hex
};

/// What a shard says of itself, gathered on its own thread at one moment between two turns: a value that other threads
/// may keep.
struct shard_report {
  std::string server{};
  std::string instance{};
  std::string state{};  ///< "ready" or "draining"
  std::chrono::nanoseconds uptime{};
  configuration_report configuration{};
  device_facts facts{};
  memory_use memory{};         ///< of the device, for all of its shards
  std::string device_error{};  ///< the device's sticky error; "" while it has none
  std::uint32_t shard = 0;
  std::vector<std::string> admin{};  ///< where the daemon's admin HTTP answers
  account counters{};
  std::vector<pipeline_report> pipelines{};  ///< that are served
  std::vector<client_report> clients{};
  std::uint32_t credit_requests = 0;  ///< that each client is granted
  std::size_t credit_bytes = 0;
  std::size_t sessions = 0;
  std::size_t max_sessions = 0;
  bool short_of_clients = false;   ///< one was lately turned away because every place was taken
  bool short_of_sessions = false;  ///< the same of sessions
  std::size_t slots = 0;
  std::size_t free_slots = 0;
  std::size_t batches_in_flight = 0;
  std::uint64_t batches_done = 0;
  std::chrono::nanoseconds since_completion{};  ///< since the last batch was done, or since the start
  std::chrono::nanoseconds standing_still{};    ///< how long the device has had a batch without finishing any; or 0
  std::vector<stream_timing> streams{};
  handshake_report handshakes{};
  shared_memory_use shared_memory{};  ///< of the whole daemon
  std::size_t peer_memory = 0;        ///< of the whole daemon: granted out of limits.memory, in bytes
  std::size_t peer_memory_limit = 0;  ///< limits.memory
};

}  // namespace penstock
