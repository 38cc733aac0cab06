#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

// The part of /api/v1/status that `penstock top` shows. Counters start at the daemon's start. Missing members are 0 or
// empty.

/// Busy times of one stream; only `timed_batches` of its `batches` were timed.
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
  std::uint64_t errors = 0;  ///< of accepted requests, all kinds
  std::uint64_t in_flight = 0;
  std::uint64_t frames = 0;
  std::uint64_t batches = 0;
  std::uint64_t batched_frames = 0;
  std::map<std::string, std::uint64_t> closed;  ///< batches by close reason
  std::map<double, std::uint64_t> total_us;     ///< requests by upper bound of the bucket
};

struct client_status {
  std::string name;
  std::uint32_t place = 0;
  std::uint64_t requests = 0;  ///< in flight
  std::uint64_t bytes = 0;     ///< in flight
  std::uint64_t results = 0;   ///< also those of others that it subscribes to
  std::uint64_t dropped = 0;   ///< likewise
};

/// A source of the daemon.
struct source_status {
  std::string name;
  std::string state;
  std::string trouble;
  std::uint64_t expected = 0;  ///< samples, as the next ones
  std::uint64_t delivered = 0;
  std::uint64_t lost = 0;  ///< in the network and in the kernel
  std::uint64_t overrun = 0;
  std::uint64_t late = 0;
  std::uint64_t gaps = 0;
  std::uint64_t epochs = 0;
  std::uint64_t queued_bytes = 0;
  std::uint64_t queue_bytes = 0;
};

/// A sink of the daemon.
struct sink_status {
  std::string name;
  std::string state;
  std::string trouble;
  std::uint64_t delivered = 0;  ///< results, as the next one
  std::uint64_t dropped = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pauses = 0;
  std::uint64_t queued_bytes = 0;
  std::uint64_t queue_bytes = 0;
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
  std::uint64_t subscriptions = 0;
  std::uint64_t published = 0;       ///< results that were sent to subscribers
  std::uint64_t published_lost = 0;  ///< those that they lost
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
  std::vector<source_status> sources;
  std::vector<sink_status> sinks;
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

/// Parses an answer. Throws std::runtime_error when it is malformed.
[[nodiscard]] daemon_status read_daemon_status(std::string_view json);

/// Use of a stream, as fractions (0 … 1) of the interval.
struct stream_figures {
  std::uint32_t shard = 0;
  std::uint32_t stream = 0;
  double copy_in = 0;
  double compute = 0;
  double copy_out = 0;
  bool known = true;  ///< false when batches ran but none was timed
};

struct shard_figures {
  std::uint32_t number = 0;
  std::string state;  ///< "missing" when it did not answer in time
  std::string device_error;
  double results_per_s = 0;
  std::uint64_t in_flight = 0;
  std::uint64_t slots_taken = 0;
  std::uint64_t slots = 0;
  std::uint64_t sessions = 0;
  std::uint64_t most_sessions = 0;
  std::uint64_t clients = 0;
  double since_completion_s = 0;
};

/// One pipeline, summed over all shards.
struct pipeline_figures {
  std::string name;
  double results_per_s = 0;
  double frames_per_s = 0;
  double errors_per_s = 0;
  std::uint64_t in_flight = 0;
  std::optional<double> frames_per_batch;  ///< nullopt when no batch was closed
  std::string close_reason;                ///< most frequent close reason; "" when no batch was closed
  double close_share = 0;                  ///< its fraction
  std::optional<double> p50_us;            ///< from receipt to result; nullopt without results
  std::optional<double> p99_us;
};

struct client_figures {
  std::string name;
  std::uint32_t shard = 0;
  std::uint32_t place = 0;
  std::uint64_t requests = 0;  ///< in flight
  std::uint64_t credits = 0;   ///< limit of requests in flight
  std::uint64_t bytes = 0;     ///< in flight
  double results_per_s = 0;
  std::uint64_t dropped = 0;  ///< since HELLO
  double dropped_per_s = 0;
  double held = 0;  ///< fraction (0 … 1) of its credits in use, requests or bytes, whichever is higher
};

struct source_figures {
  std::string name;
  std::uint32_t shard = 0;
  std::string state;
  std::string trouble;         ///< why it waits
  double delivered_per_s = 0;  ///< samples
  double queued = 0;           ///< fraction (0 … 1) of its queue in use
  std::uint64_t lost = 0;      ///< samples since the start, as the next ones
  double lost_per_s = 0;       ///< with overruns
  std::uint64_t overrun = 0;
  std::uint64_t late = 0;
  std::uint64_t epochs = 0;
};

struct sink_figures {
  std::string name;
  std::string state;
  std::string trouble;         ///< why it waits
  double delivered_per_s = 0;  ///< results
  double bytes_per_s = 0;
  double queued = 0;          ///< fraction (0 … 1) of its queue in use
  std::uint64_t dropped = 0;  ///< results since the start
  double dropped_per_s = 0;
  std::uint64_t pauses = 0;  ///< times that it paused its sources
};

/// The figures of `penstock top`. Rates, fractions and quantiles cover the interval before.
struct top_figures {
  double interval_s = 0;   ///< 0: no earlier answer; rates, fractions and quantiles are since the start
  bool restarted = false;  ///< the previous answer was of an earlier run of the daemon
  std::string server;
  std::string state;
  std::string device;  ///< "NVIDIA H200 (cuda, driver …)", or "2 × NVIDIA H200 (…)"
  double uptime_s = 0;
  std::uint64_t configuration = 0;
  std::string hash;
  double results_per_s = 0;
  double frames_per_s = 0;
  double errors_per_s = 0;
  double refused_per_s = 0;
  double bytes_in_per_s = 0;
  double bytes_out_per_s = 0;
  std::uint64_t subscriptions = 0;
  double published_per_s = 0;       ///< results to subscribers
  double published_lost_per_s = 0;  ///< results that they lost
  std::vector<shard_figures> shards;
  std::vector<stream_figures> streams;
  std::vector<pipeline_figures> pipelines;
  std::vector<client_figures> clients;
  std::vector<source_figures> sources;
  std::vector<sink_figures> sinks;
};

/// `before` may be nullptr. A counter that has decreased was reset to 0, so rates are never negative.
[[nodiscard]] top_figures figures_of(const daemon_status* before, const daemon_status& now);

/// Sort order of pipelines and clients.
enum class top_order : std::uint8_t { busy, name, trouble };

/// Ties are sorted by number and name, so that lines do not jump.
void sort_figures(top_figures& figures, top_order order);

}  // namespace penstock::cli
