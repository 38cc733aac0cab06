#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "daemon/service/reload.hpp"
#include "daemon/service/reports.hpp"

namespace penstock {

/// How much a count has risen since it was `before`. One that fell has begun anew.
[[nodiscard]] inline double rise(std::uint64_t now, std::uint64_t before) noexcept {
  return static_cast<double>(now < before ? now : now - before);
}

/// A time as what is answered over HTTP has it.
[[nodiscard]] inline double seconds(std::chrono::nanoseconds time) noexcept {
  return std::chrono::duration<double>(time).count();
}

/// What pipelines did, all shards together, as metrics with the label `pipeline`. A pipeline that a reload removed
/// keeps its series as they are until the daemon ends; where it comes back, they go on. Thread: the admin's.
class pipeline_metrics {
 public:
  explicit pipeline_metrics(prometheus::Registry& into);

  /// Brings the metrics up to date. A shard that did not answer adds what it did with its next answer.
  void take(const shard_answers& shards);

 private:
  using place = std::pair<std::size_t, std::string>;  // shard and pipeline

  void take(const pipeline_report& now, const pipeline_report& before);
  void take_requests(const std::string& name, const outcome_account& now, const outcome_account& before);
  void take_batches(const std::string& name, const pipeline_account& now, const pipeline_account& before);
  void take_times(const std::string& name, const pipeline_timing& now, const pipeline_timing& before);
  void set_in_flight();

  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Gauge>& in_flight_;
  prometheus::Family<prometheus::Counter>& frames_;
  prometheus::Family<prometheus::Histogram>& batch_frames_;
  prometheus::Family<prometheus::Counter>& closed_;
  prometheus::Family<prometheus::Counter>& refused_;
  prometheus::Family<prometheus::Histogram>& request_times_;
  prometheus::Family<prometheus::Histogram>& batch_times_;
  std::map<place, pipeline_report> seen_;  // as it was last reported
};

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
  void take_copies(const copied_bytes& now, const copied_bytes& before);
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
  counters& published_;
  counters& payload_bytes_;
  counters& copied_bytes_;
  counters& handshakes_;
  counters& handshakes_refused_;
  counters& busy_;
  gauges& up_;
  gauges& slots_;
  gauges& batches_in_flight_;
  gauges& sessions_;
  gauges& subscriptions_;
  gauges& subscription_bytes_;
  gauges& places_short_;
  gauges& arenas_;
  gauges& shared_bytes_;
  gauges& shared_device_bytes_;
  gauges& peer_bytes_;
  gauges& peer_limit_;
  gauges& clients_;
  gauges& credits_in_use_;
  gauges& credits_granted_;
  gauges& device_healthy_;
  gauges& quarantined_;
  gauges& device_memory_;
  gauges& completion_age_;
  gauges& standing_still_;
  std::vector<shard_report> last_;                      // by number
  std::vector<std::vector<stream_timing>> last_timed_;  // by number: when a batch of each stream was last timed
};

/// What became of sources' samples, as metrics with the label `source`. A source that a reload removed keeps its series
/// as they are. Thread: the admin's.
class source_metrics {
 public:
  explicit source_metrics(prometheus::Registry& into);

  /// Brings the metrics up to date.
  void take(const shard_answers& shards);

 private:
  void take(const source_report& now, const source_report& before);

  prometheus::Family<prometheus::Counter>& samples_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Counter>& events_;
  prometheus::Family<prometheus::Gauge>& up_;
  prometheus::Family<prometheus::Gauge>& waiting_;
  prometheus::Family<prometheus::Gauge>& queued_;
  std::map<std::string, source_report> seen_;  // as it was last reported
};

/// What became of the results that sinks are for, as metrics with the label `sink`. As source_metrics. Thread: the
/// admin's.
class sink_metrics {
 public:
  explicit sink_metrics(prometheus::Registry& into);

  /// Brings the metrics up to date.
  void take(const shard_answers& shards);

 private:
  prometheus::Family<prometheus::Counter>& results_;
  prometheus::Family<prometheus::Counter>& bytes_;
  prometheus::Family<prometheus::Counter>& pauses_;
  prometheus::Family<prometheus::Gauge>& up_;
  prometheus::Family<prometheus::Gauge>& waiting_;
  prometheus::Family<prometheus::Gauge>& queued_;
  std::map<std::string, sink_report> seen_;  // as it was last reported
};

/// Everything that /metrics says. docs/admin-http.md lists it. Thread: the admin's.
class metrics {
 public:
  metrics();

  /// Brings the metrics up to date.
  void take(const daemon_facts& facts, const shard_answers& shards);
  void count_reload(const reload_outcome& made);
  /// In Prometheus's text format.
  [[nodiscard]] std::string print() const;

 private:
  void take_configuration(const configuration_report& now);
  void take_builds(const shard_answers& shards);

  prometheus::Registry registry_;
  pipeline_metrics pipelines_;
  shard_metrics shards_;
  source_metrics sources_;
  sink_metrics sinks_;
  prometheus::Family<prometheus::Gauge>& draining_;
  prometheus::Family<prometheus::Gauge>& started_;
  prometheus::Family<prometheus::Gauge>& version_;
  prometheus::Family<prometheus::Gauge>& configuration_;
  prometheus::Family<prometheus::Gauge>& build_;
  prometheus::Family<prometheus::Counter>& reloads_;
  prometheus::Family<prometheus::Counter>& cut_;
  prometheus::Family<prometheus::Counter>& turned_away_;
  prometheus::Family<prometheus::Counter>& too_often_;
  std::uint64_t cut_before_ = 0;
  std::uint64_t turned_away_before_ = 0;
  std::uint64_t too_often_before_ = 0;
  prometheus::Gauge* hash_ = nullptr;  // of the configuration that is served
  std::string hash_text_;
};

}  // namespace penstock
