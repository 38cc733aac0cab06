#pragma once

#include <cstdint>
#include <string>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include "daemon/admin/http/pipeline_metrics.hpp"
#include "daemon/admin/http/shard_metrics.hpp"
#include "daemon/admin/http/shard_reports.hpp"
#include "daemon/admin/http/status_json.hpp"
#include "daemon/admin/reload_outcome.hpp"

namespace penstock {

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
