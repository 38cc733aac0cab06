#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/top_status.hpp"

namespace penstock::cli {

/// What a stream spent its time with, as parts (0 … 1) of the interval.
struct stream_figures {
  std::uint32_t shard = 0;
  std::uint32_t stream = 0;
  double copy_in = 0;
  double compute = 0;
  double copy_out = 0;
  bool known = true;  ///< false when batches ran and none of them was timed
};

struct shard_figures {
  std::uint32_t number = 0;
  std::string state;  ///< "missing" when it did not answer the daemon in time
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

/// One pipeline, all shards together.
struct pipeline_figures {
  std::string name;
  double results_per_s = 0;
  double frames_per_s = 0;
  double errors_per_s = 0;
  std::uint64_t in_flight = 0;
  std::optional<double> frames_per_batch;  ///< unset when no batch was closed
  std::string close_reason;                ///< that closed the most batches; "" when none was closed
  double close_share = 0;                  ///< its part of them
  std::optional<double> p50_us;            ///< from being received to the result; unset when there was none
  std::optional<double> p99_us;
};

struct client_figures {
  std::string name;
  std::uint32_t shard = 0;
  std::uint32_t place = 0;
  std::uint64_t requests = 0;  ///< in flight
  std::uint64_t credits = 0;   ///< requests that it may have in flight
  std::uint64_t bytes = 0;     ///< in flight
  double results_per_s = 0;
  std::uint64_t dropped = 0;  ///< since its HELLO
  double dropped_per_s = 0;
  double held = 0;  ///< the part (0 … 1) of its credits in use, of requests or of bytes, whichever is more
};

/// What `penstock top` shows of a moment. Rates, shares and quantiles are those of the interval before it.
struct top_figures {
  double interval_s = 0;   ///< 0: there is none before it, and rates, shares and quantiles are since the start
  bool restarted = false;  ///< the answer before it was of an earlier run of the daemon
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
  std::vector<shard_figures> shards;
  std::vector<stream_figures> streams;
  std::vector<pipeline_figures> pipelines;
  std::vector<client_figures> clients;
};

/// `before` may be nullptr. A counter that is lower than before began again at 0, so no rate is ever negative.
[[nodiscard]] top_figures figures_of(const daemon_status* before, const daemon_status& now);

/// What comes first among the pipelines and the clients.
enum class top_order : std::uint8_t { busy, name, trouble };

/// Ties keep their order of numbers and names, so that lines stay where they are.
void sort_figures(top_figures& which, top_order by);

}  // namespace penstock::cli
