#pragma once

#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include "daemon/admin/http/shard_reports.hpp"

namespace penstock {

/// What shards, their devices and their clients did, as metrics. Counts and sizes of clients are those of all shards
/// together: no client has a label of its own, since there may be any number of them. Thread: the admin's.
class shard_metrics {
 public:
  explicit shard_metrics(prometheus::Registry& into);

  /// Brings the metrics up to date. A shard that did not answer keeps its last gauges, and adds what it did with its
  /// next answer.
  void take(const shard_answers& shards);

 private:
  void take(const shard_report& now, const shard_report& before);
  void take_counts(const account& now, const account& before);
  void take_handshakes(const handshake_report& now, const handshake_report& before);
  void take_streams(const shard_report& now);
  void set_gauges(const shard_report& now);
  void set_sums();

  using counters = prometheus::Family<prometheus::Counter>;
  using gauges = prometheus::Family<prometheus::Gauge>;

  counters& received_;
  counters& refused_;
  counters& replies_;
  counters& repeats_;
  counters& places_;
  counters& control_;
  counters& payload_bytes_;
  counters& handshakes_;
  counters& handshakes_refused_;
  counters& busy_;
  gauges& up_;
  gauges& slots_;
  gauges& batches_in_flight_;
  gauges& sessions_;
  gauges& places_short_;
  gauges& arenas_;
  gauges& shared_bytes_;
  gauges& peer_bytes_;
  gauges& peer_limit_;
  gauges& clients_;
  gauges& credits_in_use_;
  gauges& credits_granted_;
  gauges& device_healthy_;
  gauges& device_memory_;
  gauges& completion_age_;
  gauges& standing_still_;
  std::vector<shard_report> last_;                      // by number
  std::vector<std::vector<stream_timing>> last_timed_;  // by number: when a batch of each stream was last timed
};

}  // namespace penstock
