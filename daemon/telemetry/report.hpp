#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/declaration.hpp"
#include "daemon/request/counters.hpp"
#include "daemon/shm/server.hpp"
#include "daemon/telemetry/recorder.hpp"
#include "daemon/telemetry/sink_board.hpp"
#include "daemon/telemetry/source_board.hpp"

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
  std::uint32_t subscriptions = 0;
  std::uint64_t published = 0;  ///< results that its subscriptions were sent
  std::uint64_t lost = 0;       ///< results that they lost
  bool is_source = false;       ///< a source of the daemon, which takes none of max_clients' places
};

/// Subscriptions to results, of a shard.
struct subscription_figures {
  std::size_t open = 0;
  std::size_t queued_bytes = 0;  ///< on their way to subscribers; shared bytes count for each
};

/// Which configuration is served.
struct configuration_report {
  std::uint64_t version = 1;  ///< 1 at start-up, one more with each reload
  std::string hash;           ///< of its effective text, as --print-config prints it; hex
};

/// A shard's state at one moment between two turns, gathered on its own thread. A value: other threads may keep it.
struct shard_report {
  std::string server{};
  std::string instance{};
  std::string state{};  ///< "ready" or "draining"
  std::chrono::nanoseconds uptime{};
  configuration_report configuration{};
  device_facts facts{};
  memory_use memory{};         ///< of the device, for all of its shards
  std::string device_error{};  ///< the device's sticky error; "" while it has none
  std::string suspects{};      ///< users' code that the device had when it was lost, for people
  std::uint32_t shard = 0;
  std::vector<std::string> admin{};  ///< where the daemon's admin HTTP answers
  account counters{};
  std::vector<pipeline_report> pipelines{};  ///< that are served
  std::vector<refused_pipeline> refused{};   ///< that are in quarantine
  std::vector<client_report> clients{};
  std::vector<source_report> sources{};  ///< that feed this shard
  std::vector<sink_report> sinks{};      ///< of the daemon; shard 0 has them
  std::uint32_t credit_requests = 0;     ///< that each client is granted
  std::size_t credit_bytes = 0;
  std::size_t sessions = 0;
  std::size_t max_sessions = 0;
  bool short_of_clients = false;   ///< one was turned away lately because every place was taken
  bool short_of_sessions = false;  ///< the same of sessions
  std::size_t slots = 0;
  std::size_t free_slots = 0;
  std::size_t batches_in_flight = 0;
  std::uint64_t batches_done = 0;
  std::chrono::nanoseconds since_completion{};  ///< since the last batch was done, or since the start
  std::chrono::nanoseconds standing_still{};    ///< how long the device has had a batch without finishing any; else 0
  std::vector<stream_timing> streams{};
  handshake_report handshakes{};
  shared_memory_use shared_memory{};  ///< of the whole daemon
  copied_bytes copied{};
  subscription_figures subscriptions{};
  std::size_t peer_memory = 0;        ///< of the whole daemon: granted out of limits.memory, in bytes
  std::size_t peer_memory_limit = 0;  ///< limits.memory
};

// Parts of a shard's report that STATUS and the HTTP API have in common; proto/PROTOCOL.md describes them.

[[nodiscard]] nlohmann::ordered_json json_of(const outcome_account& requests);
/// Its name and counters: requests, frames, batches and why they were closed.
[[nodiscard]] nlohmann::ordered_json json_of(const pipeline_report& pipeline);
/// A list of them.
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<source_report>& sources);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<sink_report>& sinks);
/// Pipelines in quarantine, and why.
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<refused_pipeline>& refused);
/// Quantiles, the largest and the sum in µs of each time that was measured at least once.
[[nodiscard]] nlohmann::ordered_json json_of(const pipeline_timing& timing);
/// Handshakes that were refused, by why.
[[nodiscard]] nlohmann::ordered_json refused_json(const handshake_report& handshakes);
/// Subscriptions, and what they were sent and lost.
[[nodiscard]] nlohmann::ordered_json subscriptions_json(const shard_report& report);
/// Messages that were refused, by the status they were answered with.
[[nodiscard]] nlohmann::ordered_json refused_json(const account& counters);

/// The JSON body of STATUS; proto/PROTOCOL.md describes it. The times of the last pipelines are left out where the body
/// would be too large for a message.
[[nodiscard]] std::string report_status(const shard_report& report);

}  // namespace penstock
