#include "daemon/admin/http/metrics.hpp"

#include <chrono>
#include <sstream>
#include <utility>

#include <prometheus/text_serializer.h>

#include "daemon/admin/http/rise.hpp"
#include "daemon/socket/connection_meter.hpp"
#include "daemon/socket/connection_rate.hpp"
#include "daemon/socket/descriptors.hpp"
#include "penstock_version.hpp"

namespace penstock {

using prometheus::BuildCounter;
using prometheus::BuildGauge;

metrics::metrics()
    : pipelines_(registry_),
      shards_(registry_),
      draining_(BuildGauge().Name("penstock_draining").Help("1 while the daemon drains to stop.").Register(registry_)),
      started_(BuildGauge()
                   .Name("penstock_start_time_seconds")
                   .Help("When the daemon started, in seconds since 1970.")
                   .Register(registry_)),
      version_(BuildGauge()
                   .Name("penstock_configuration_version")
                   .Help("1 at the start, one more with each reload that changed something.")
                   .Register(registry_)),
      configuration_(BuildGauge()
                         .Name("penstock_configuration_info")
                         .Help("1, with the hash of the configuration that is served.")
                         .Register(registry_)),
      build_(BuildGauge()
                 .Name("penstock_build_info")
                 .Help("1, with the daemon's version and the devices that it serves on.")
                 .Register(registry_)),
      reloads_(BuildCounter()
                   .Name("penstock_reloads_total")
                   .Help("Reloads of the configuration: changed, unchanged, or refused as invalid.")
                   .Register(registry_)),
      cut_(BuildCounter()
               .Name("penstock_connections_cut_total")
               .Help("Connections that were cut: they sent more than they may ahead, or no ZMTP 3 of a client.")
               .Register(registry_)),
      turned_away_(BuildCounter()
                       .Name("penstock_connections_turned_away_total")
                       .Help("Connections that were closed at once, because descriptors were short.")
                       .Register(registry_)),
      too_often_(BuildCounter()
                     .Name("penstock_connections_too_often_total")
                     .Help("Connections that were closed at once, because they came too often.")
                     .Register(registry_)) {
  for (const char* outcome : {"changed", "unchanged", "refused"}) {
    reloads_.Add({{"outcome", outcome}});
  }
}

void metrics::take(const daemon_facts& facts, const shard_answers& shards) {
  pipelines_.take(shards);
  shards_.take(shards);
  draining_.Add({}).Set(facts.state == daemon_state::draining ? 1 : 0);
  started_.Add({}).Set(std::chrono::duration<double>(facts.started.time_since_epoch()).count());
  const std::uint64_t cut = connections_cut();
  cut_.Add({}).Increment(rise(cut, std::exchange(cut_before_, cut)));
  const std::uint64_t turned_away = connections_turned_away();
  turned_away_.Add({}).Increment(rise(turned_away, std::exchange(turned_away_before_, turned_away)));
  const std::uint64_t too_often = connections_too_often();
  too_often_.Add({}).Increment(rise(too_often, std::exchange(too_often_before_, too_often)));
  take_configuration(configuration_of(shards));
  take_builds(shards);
}

void metrics::take_configuration(const configuration_report& now) {
  version_.Add({}).Set(static_cast<double>(now.version));
  if (hash_ == nullptr || hash_text_ != now.hash) {
    if (hash_ != nullptr) {
      configuration_.Remove(hash_);
    }
    hash_text_ = now.hash;
    hash_ = &configuration_.Add({{"hash", now.hash}});
    hash_->Set(1);
  }
}

void metrics::take_builds(const shard_answers& shards) {
  for (const auto& each : shards) {
    if (each) {
      build_.Add({{"version", version}, {"backend", each->facts.backend}, {"device", each->facts.name}}).Set(1);
    }
  }
}

void metrics::count_reload(const reload_outcome& made) {
  const char* const outcome = !made.error.empty() ? "refused" : made.changed ? "changed" : "unchanged";
  reloads_.Add({{"outcome", outcome}}).Increment();
}

std::string metrics::print() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, registry_.Collect());
  return std::move(out).str();
}

}  // namespace penstock
