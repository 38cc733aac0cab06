#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "daemon/admin/http/shard_reports.hpp"

namespace penstock {

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

}  // namespace penstock
