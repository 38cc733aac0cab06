#pragma once

#include <cstdint>
#include <string>

#include "daemon/telemetry/report.hpp"

namespace penstock::testing {

/// A shard that served `results` requests of one frame in so many batches, with a client that has one more in flight.
inline shard_report made_up_report(std::uint32_t shard, std::uint64_t results,
                                   const std::string& pipeline = "spectrum") {
  using namespace std::chrono_literals;
  shard_report made{.server = "penstockd 9", .instance = "5f1c", .state = "ready", .uptime = 10s};
  made.shard = shard;
  made.configuration = {.version = 3, .hash = "9f86d081884c7d65"};
  made.facts = {.backend = "host", .name = "a processor", .detail = "2 worker threads"};
  made.memory = {.pinned = 4096, .device = 8192};
  made.counters.received = results + 2;
  made.counters.requests = {.accepted = results + 1, .results = results, .in_flight = 1};
  made.counters.refused[wire::status::no_credit] = 2;
  made.counters.replies_sent = results;
  made.counters.payload_bytes_in = 100 * results;
  pipeline_report served{.name = pipeline, .counters = {}, .timing = {}};
  served.counters.requests = made.counters.requests;
  served.counters.frames = results + 1;
  served.counters.batches = results;
  served.counters.batched_frames = results;
  served.counters.closed[0] = results;
  served.counters.batch_sizes[0] = results;
  served.timing.total.record(3ms, results);
  served.timing.copy_in.record(20us, results);
  made.pipelines.push_back(std::move(served));
  made.clients.push_back({.name = "radio", .place = 4, .requests = 1, .bytes = 2048, .results = results, .dropped = 0});
  made.credit_requests = 256;
  made.credit_bytes = 1 << 20;
  made.sessions = 2;
  made.max_sessions = 64;
  made.slots = 16;
  made.free_slots = 15;
  made.batches_done = results;
  made.streams.push_back(
      {.copy_in = results * 1us, .compute = results * 3us, .timed_batches = results, .batches = results});
  return made;
}

}  // namespace penstock::testing
