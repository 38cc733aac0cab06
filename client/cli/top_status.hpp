#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

// What /api/v1/status says, as far as `penstock top` shows it. Counters count up from the daemon's start. What an
// answer leaves out is 0 or empty.

/// What one stream was kept busy with; only `timed_batches` of its `batches` were timed.
struct stream_status {
  std::uint32_t number = 0;
  std::uint64_t copy_in_ns = 0;
  std::uint64_t compute_ns = 0;
  std::uint64_t copy_out_ns = 0;
  std::uint64_t batches = 0;
  std::uint64_t timed_batches = 0;
};

struct pipeline_status {
  std::string name;
  std::uint64_t results = 0;
  std::uint64_t errors = 0;  ///< of accepted requests, all kinds together
  std::uint64_t in_flight = 0;
  std::uint64_t frames = 0;
  std::uint64_t batches = 0;
  std::uint64_t batched_frames = 0;
  std::map<std::string, std::uint64_t> closed;  ///< batches by what closed them
  std::map<double, std::uint64_t> total_us;     ///< requests by the upper end of their bucket
};

struct client_status {
  std::string name;
  std::uint32_t place = 0;
  std::uint64_t requests = 0;  ///< in flight
  std::uint64_t bytes = 0;     ///< in flight
  std::uint64_t results = 0;
  std::uint64_t dropped = 0;
};

struct shard_status {
  std::uint32_t number = 0;
  std::string state;
  std::string instance;
  double uptime_s = 0;
  std::string device;  ///< its name
  std::string backend;
  std::string device_detail;
  std::string device_error;
  std::uint64_t results = 0;
  std::uint64_t errors = 0;
  std::uint64_t in_flight = 0;
  std::uint64_t refused = 0;
  std::uint64_t replies_dropped = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t credit_requests = 0;
  std::uint64_t credit_bytes = 0;
  std::uint64_t sessions = 0;
  std::uint64_t most_sessions = 0;
  std::uint64_t slots = 0;
  std::uint64_t free_slots = 0;
  std::uint64_t batches_in_flight = 0;
  double since_completion_s = 0;
  std::vector<stream_status> streams;
  std::vector<pipeline_status> pipelines;
  std::vector<client_status> clients;
};

struct daemon_status {
  std::string server;
  std::string state;
  double uptime_s = 0;
  double start_time_s = 0;
  std::uint64_t configuration = 0;
  std::string hash;
  std::vector<std::uint32_t> missing_shards;
  std::vector<shard_status> shards;
};

/// Throws std::runtime_error when the text is not such an answer.
[[nodiscard]] daemon_status read_daemon_status(std::string_view json);

}  // namespace penstock::cli
