#include "daemon/service/metrics.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <prometheus/text_serializer.h>

#include "base/process_limits.hpp"
#include "daemon/net/connection_limits.hpp"
#include "daemon/telemetry/timeline.hpp"
#include "penstock_version.hpp"
#include "proto/status.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;

// 1, 2.5 and 5 times each power of ten.
constexpr std::size_t time_bounds = 19;
constexpr std::array<nanoseconds, time_bounds> bounds_from(nanoseconds first) {
  std::array<nanoseconds, time_bounds> bounds{};
  for (std::size_t each = 0; each < time_bounds; ++each) {
    bounds[each] = each % 3 == 0 ? first : each % 3 == 1 ? first * 5 / 2 : first * 5;
    first *= each % 3 == 2 ? 10 : 1;
  }
  return bounds;
}
constexpr auto request_bounds = bounds_from(std::chrono::microseconds{10});  // to 10 s
constexpr auto batch_bounds = bounds_from(std::chrono::microseconds{1});     // to 1 s

// Batches of more frames than the last bound are rare enough to be counted together.
constexpr std::size_t size_bounds = 17;

std::vector<double> in_seconds(const std::array<nanoseconds, time_bounds>& bounds) {
  std::vector<double> made;
  for (const nanoseconds each : bounds) {
    // A decimal as short as it is meant.
    made.push_back(static_cast<double>(each.count()) / 1e9);
  }
  return made;
}

std::vector<double> powers_of_two() {
  std::vector<double> made;
  for (std::size_t each = 0; each < size_bounds; ++each) {
    made.push_back(static_cast<double>(std::uint64_t{1} << each));
  }
  return made;
}

std::string lower(std::string_view name) {
  std::string made(name);
  std::transform(made.begin(), made.end(), made.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return made;
}

void observe(prometheus::Histogram& into, const std::array<nanoseconds, time_bounds>& bounds, const time_histogram& now,
             const time_histogram& before) {
  const bool anew = now.count() < before.count();
  const std::vector<std::uint64_t> counts = now.coarse(bounds);
  const std::vector<std::uint64_t> old = anew ? std::vector<std::uint64_t>(counts.size()) : before.coarse(bounds);
  std::vector<double> rises;
  for (std::size_t each = 0; each < counts.size(); ++each) {
    rises.push_back(rise(counts[each], old[each]));
  }
  into.ObserveMultiple(rises, (now.sum_ns() - (anew ? 0 : before.sum_ns())) / 1e9);
}

}  // namespace

pipeline_metrics::pipeline_metrics(prometheus::Registry& into)
    : requests_(prometheus::BuildCounter()
                    .Name("penstock_requests_total")
                    .Help("Accepted requests that ended, by how: result, or the kind of the error.")
                    .Register(into)),
      in_flight_(prometheus::BuildGauge()
                     .Name("penstock_requests_in_flight")
                     .Help("Accepted requests that have not ended.")
                     .Register(into)),
      frames_(
          prometheus::BuildCounter().Name("penstock_frames_total").Help("Frames of accepted requests.").Register(into)),
      batch_frames_(prometheus::BuildHistogram()
                        .Name("penstock_batch_frames")
                        .Help("Frames of a batch that went to the device.")
                        .Register(into)),
      closed_(prometheus::BuildCounter()
                  .Name("penstock_batches_closed_total")
                  .Help("Batches by why they were closed: the device was idle, full, max_delay, another extent, drain.")
                  .Register(into)),
      refused_(prometheus::BuildCounter()
                   .Name("penstock_batches_refused_total")
                   .Help("Batches that the device refused, and whose requests were answered FAILED.")
                   .Register(into)),
      request_times_(prometheus::BuildHistogram()
                         .Name("penstock_request_duration_seconds")
                         .Help("Of each request: queued until its batch's launch, device from there to completion, "
                               "total until its result.")
                         .Register(into)),
      batch_times_(prometheus::BuildHistogram()
                       .Name("penstock_batch_duration_seconds")
                       .Help("Of each batch that was timed, by the device's clock: copy_in, compute, copy_out.")
                       .Register(into)) {}

void pipeline_metrics::take(const shard_answers& shards) {
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (!shards[number]) {
      continue;
    }
    // Those that it does not serve any more have nothing in flight.
    for (auto at = seen_.lower_bound({number, ""}); at != seen_.end() && at->first.first == number; ++at) {
      at->second.counters.requests.in_flight = 0;
    }
    for (const pipeline_report& now : shards[number]->pipelines) {
      pipeline_report& before = seen_[{number, now.name}];
      take(now, before);
      before = now;
    }
  }
  set_in_flight();
}

void pipeline_metrics::take(const pipeline_report& now, const pipeline_report& before) {
  take_requests(now.name, now.counters.requests, before.counters.requests);
  take_batches(now.name, now.counters, before.counters);
  take_times(now.name, now.timing, before.timing);
}

void pipeline_metrics::take_requests(const std::string& name, const outcome_account& now,
                                     const outcome_account& before) {
  requests_.Add({{"pipeline", name}, {"outcome", "result"}}).Increment(rise(now.results, before.results));
  for (std::size_t kind = 1; kind < wire::status_kinds; ++kind) {
    requests_.Add({{"pipeline", name}, {"outcome", lower(wire::name_of(static_cast<wire::status_kind>(kind)))}})
        .Increment(rise(now.errors[kind], before.errors[kind]));
  }
}

void pipeline_metrics::take_batches(const std::string& name, const pipeline_account& now,
                                    const pipeline_account& before) {
  frames_.Add({{"pipeline", name}}).Increment(rise(now.frames, before.frames));
  for (std::size_t reason = 0; reason < close_reasons; ++reason) {
    closed_.Add({{"pipeline", name}, {"reason", std::string(name_of(static_cast<close_reason>(reason)))}})
        .Increment(rise(now.closed[reason], before.closed[reason]));
  }
  refused_.Add({{"pipeline", name}}).Increment(rise(now.refused, before.refused));
  std::vector<double> rises(size_bounds + 1);
  for (std::size_t each = 0; each < now.batch_sizes.size(); ++each) {
    rises[std::min(each, size_bounds)] += rise(now.batch_sizes[each], before.batch_sizes[each]);
  }
  batch_frames_.Add({{"pipeline", name}}, powers_of_two())
      .ObserveMultiple(rises, rise(now.batched_frames, before.batched_frames));
}

void pipeline_metrics::take_times(const std::string& name, const pipeline_timing& now, const pipeline_timing& before) {
  const auto take_one = [&](auto& family, const auto& bounds, const char* step,
                            time_histogram pipeline_timing::*which) {
    observe(family.Add({{"pipeline", name}, {"step", step}}, in_seconds(bounds)), bounds, now.*which, before.*which);
  };
  take_one(request_times_, request_bounds, "queued", &pipeline_timing::queued);
  take_one(request_times_, request_bounds, "device", &pipeline_timing::device);
  take_one(request_times_, request_bounds, "total", &pipeline_timing::total);
  take_one(batch_times_, batch_bounds, "copy_in", &pipeline_timing::copy_in);
  take_one(batch_times_, batch_bounds, "compute", &pipeline_timing::compute);
  take_one(batch_times_, batch_bounds, "copy_out", &pipeline_timing::copy_out);
}

void pipeline_metrics::set_in_flight() {
  std::map<std::string, std::uint64_t> sums;
  for (const auto& [where, what] : seen_) {
    sums[where.second] += what.counters.requests.in_flight;
  }
  for (const auto& [name, sum] : sums) {
    in_flight_.Add({{"pipeline", name}}).Set(static_cast<double>(sum));
  }
}

using prometheus::BuildCounter;
using prometheus::BuildGauge;

namespace {

prometheus::Family<prometheus::Counter>& counter(prometheus::Registry& into, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(into);
}

prometheus::Family<prometheus::Gauge>& gauge(prometheus::Registry& into, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(into);
}

}  // namespace

shard_metrics::shard_metrics(prometheus::Registry& into)
    : received_(counter(into, "penstock_messages_received_total", "Messages of any type that clients sent.")),
      refused_(counter(into, "penstock_refused_total",
                       "Messages that were not accepted, by the status that their sender got.")),
      replies_(
          counter(into, "penstock_replies_total",
                  "Replies: sent, dropped because the client's queue was full, undeliverable because it had gone.")),
      repeats_(counter(into, "penstock_repeats_total",
                       "Requests with a known id: ignored while in flight, answered from the kept replies.")),
      places_(counter(into, "penstock_client_places_total",
                      "Places of clients: resumed over another connection, lost because the connection had ended.")),
      control_(counter(into, "penstock_control_messages_total",
                       "Control messages and refusals of clients that owed time: delayed, or dropped.")),
      published_(
          counter(into, "penstock_published_results_total",
                  "Results for subscribers, once for each: sent, dropped because its queue was full or it had no "
                  "connection, withheld because they lie in device memory or their sender says so.")),
      payload_bytes_(counter(into, "penstock_payload_bytes_total", "Bytes of tensors, from clients and to them.")),
      copied_bytes_(counter(into, "penstock_copied_bytes_total",
                            "Bytes that the device copied for batches: to its memory, from it, and within it.")),
      handshakes_(counter(into, "penstock_handshakes_total", "Connections that finished their handshake.")),
      handshakes_refused_(counter(into, "penstock_handshakes_refused_total",
                                  "Connections that were refused before they could send a message, by why.")),
      busy_(
          counter(into, "penstock_stream_busy_seconds_total",
                  "How long a stream was busy with copy_in, compute and copy_out, estimated from the timed batches.")),
      up_(gauge(into, "penstock_shard_up", "Whether the shard answered this scrape in time.")),
      slots_(gauge(into, "penstock_slots", "Slots for batches, by whether they are free or used.")),
      batches_in_flight_(gauge(into, "penstock_batches_in_flight", "Batches on the device.")),
      sessions_(gauge(into, "penstock_sessions", "Open sessions.")),
      subscriptions_(gauge(into, "penstock_subscriptions", "Subscriptions to results.")),
      subscription_bytes_(gauge(into, "penstock_subscription_queued_bytes", "Results on their way to subscribers.")),
      places_short_(gauge(into, "penstock_places_short",
                          "Whether clients or sessions were lately turned away because every place was taken.")),
      arenas_(gauge(into, "penstock_shared_memory_arenas", "Pieces of memory that clients share with the daemon.")),
      shared_bytes_(gauge(into, "penstock_shared_memory_bytes", "Memory that clients share with the daemon.")),
      shared_device_bytes_(
          gauge(into, "penstock_shared_memory_device_bytes", "Device memory that clients share with the daemon.")),
      peer_bytes_(gauge(into, "penstock_peer_memory_bytes", "Host memory granted to peers, out of the limit.")),
      peer_limit_(gauge(into, "penstock_peer_memory_limit_bytes", "The limit of it: limits.memory.")),
      clients_(gauge(into, "penstock_clients", "Clients that are known.")),
      credits_in_use_(gauge(into, "penstock_credits_in_use", "What all clients have in flight: requests, bytes.")),
      credits_granted_(
          gauge(into, "penstock_credits_granted", "What all clients may have in flight: requests, bytes.")),
      device_healthy_(gauge(into, "penstock_device_healthy", "Whether the shard's device has no error that stays.")),
      quarantined_(gauge(into, "penstock_quarantined_pipelines",
                         "Pipelines that are not served, as the device was lost again and again while they ran.")),
      device_memory_(gauge(into, "penstock_device_memory_bytes",
                           "Memory that the daemon holds for a device: pinned on the host, and the device's own.")),
      completion_age_(gauge(into, "penstock_last_completion_age_seconds",
                            "Since the last batch was done, or since the start. An idle shard's grows.")),
      standing_still_(gauge(into, "penstock_device_standing_still_seconds",
                            "How long the device has had a batch without finishing any; 0 while it has none.")) {
  for (const wire::status_entry& each : wire::status_table()) {
    if (each.code != wire::status::ok) {
      refused_.Add({{"status", std::string(each.name)}});
    }
  }
}

void shard_metrics::take(const shard_answers& shards) {
  last_.resize(std::max(last_.size(), shards.size()));
  last_timed_.resize(last_.size());
  for (std::size_t number = 0; number < shards.size(); ++number) {
    up_.Add({{"shard", std::to_string(number)}}).Set(shards[number] ? 1 : 0);
    if (shards[number]) {
      take(*shards[number], last_[number]);
      last_[number] = *shards[number];
    }
  }
  set_sums();
}

void shard_metrics::take(const shard_report& now, const shard_report& before) {
  take_counts(now.counters, before.counters);
  take_handshakes(now.handshakes, before.handshakes);
  take_copies(now.copied, before.copied);
  take_streams(now);
  set_gauges(now);
}

void shard_metrics::take_counts(const account& now, const account& before) {
  received_.Add({}).Increment(rise(now.received, before.received));
  for (const auto& [code, count] : now.refused) {
    const auto known = before.refused.find(code);
    refused_.Add({{"status", std::string(wire::name_of(code))}})
        .Increment(rise(count, known == before.refused.end() ? 0 : known->second));
  }
  replies_.Add({{"fate", "sent"}}).Increment(rise(now.replies_sent, before.replies_sent));
  replies_.Add({{"fate", "dropped"}}).Increment(rise(now.replies_dropped, before.replies_dropped));
  replies_.Add({{"fate", "undeliverable"}}).Increment(rise(now.replies_undeliverable, before.replies_undeliverable));
  repeats_.Add({{"fate", "ignored"}}).Increment(rise(now.repeats_ignored, before.repeats_ignored));
  repeats_.Add({{"fate", "answered"}}).Increment(rise(now.repeats_answered, before.repeats_answered));
  places_.Add({{"fate", "resumed"}}).Increment(rise(now.clients_resumed, before.clients_resumed));
  places_.Add({{"fate", "lost"}}).Increment(rise(now.clients_lost, before.clients_lost));
  control_.Add({{"fate", "delayed"}}).Increment(rise(now.control_delayed, before.control_delayed));
  control_.Add({{"fate", "dropped"}}).Increment(rise(now.control_dropped, before.control_dropped));
  published_.Add({{"fate", "sent"}}).Increment(rise(now.results_published, before.results_published));
  published_.Add({{"fate", "dropped"}}).Increment(rise(now.results_lost, before.results_lost));
  published_.Add({{"fate", "withheld"}}).Increment(rise(now.results_withheld, before.results_withheld));
  payload_bytes_.Add({{"direction", "in"}}).Increment(rise(now.payload_bytes_in, before.payload_bytes_in));
  payload_bytes_.Add({{"direction", "out"}}).Increment(rise(now.payload_bytes_out, before.payload_bytes_out));
}

void shard_metrics::take_copies(const copied_bytes& now, const copied_bytes& before) {
  copied_bytes_.Add({{"direction", "in"}}).Increment(rise(now.in, before.in));
  copied_bytes_.Add({{"direction", "out"}}).Increment(rise(now.out, before.out));
  copied_bytes_.Add({{"direction", "within"}}).Increment(rise(now.within_device, before.within_device));
}

void shard_metrics::take_handshakes(const handshake_report& now, const handshake_report& before) {
  handshakes_.Add({}).Increment(rise(now.succeeded, before.succeeded));
  for (std::size_t why = 0; why < handshake_refusals; ++why) {
    handshakes_refused_.Add({{"reason", std::string(name_of(static_cast<handshake_refusal>(why)))}})
        .Increment(rise(now.refused[why], before.refused[why]));
  }
}

// Only some batches are timed. What those since the last look took stands for all batches since then; while none was
// timed, the look is put off.
void shard_metrics::take_streams(const shard_report& now) {
  std::vector<stream_timing>& looks = last_timed_[now.shard];
  looks.resize(std::max(looks.size(), now.streams.size()));
  for (std::size_t stream = 0; stream < now.streams.size(); ++stream) {
    const stream_timing& is = now.streams[stream];
    stream_timing& was = looks[stream];
    const auto add = [&](const char* work, std::chrono::nanoseconds time) {
      const double share = is.timed_batches > was.timed_batches
                               ? rise(is.batches, was.batches) / rise(is.timed_batches, was.timed_batches)
                               : 0;
      busy_.Add({{"shard", std::to_string(now.shard)}, {"stream", std::to_string(stream)}, {"work", work}})
          .Increment(seconds(time) * share);
    };
    add("copy_in", is.copy_in - was.copy_in);
    add("compute", is.compute - was.compute);
    add("copy_out", is.copy_out - was.copy_out);
    if (is.timed_batches > was.timed_batches) {
      was = is;
    }
  }
}

void shard_metrics::set_gauges(const shard_report& now) {
  const prometheus::Labels shard{{"shard", std::to_string(now.shard)}};
  const auto labelled = [&](const char* name, const char* value) {
    prometheus::Labels labels = shard;
    labels.emplace(name, value);
    return labels;
  };
  slots_.Add(labelled("state", "free")).Set(static_cast<double>(now.free_slots));
  slots_.Add(labelled("state", "used")).Set(static_cast<double>(now.slots - now.free_slots));
  places_short_.Add(labelled("of", "clients")).Set(now.short_of_clients ? 1 : 0);
  places_short_.Add(labelled("of", "sessions")).Set(now.short_of_sessions ? 1 : 0);
  batches_in_flight_.Add(shard).Set(static_cast<double>(now.batches_in_flight));
  device_healthy_.Add(shard).Set(now.device_error.empty() ? 1 : 0);
  quarantined_.Add({}).Set(static_cast<double>(now.refused.size()));
  // The shards of one device all tell of the whole of it.
  const std::string device = now.facts.pci_bus_id.empty() ? now.facts.backend : now.facts.pci_bus_id;
  device_memory_.Add({{"device", device}, {"kind", "pinned"}}).Set(static_cast<double>(now.memory.pinned));
  device_memory_.Add({{"device", device}, {"kind", "device"}}).Set(static_cast<double>(now.memory.device));
  completion_age_.Add(shard).Set(seconds(now.since_completion));
  standing_still_.Add(shard).Set(seconds(now.standing_still));
}

void shard_metrics::set_sums() {
  double sessions = 0;
  double clients = 0;
  double requests = 0;
  double bytes = 0;
  double granted_requests = 0;
  double granted_bytes = 0;
  double subscriptions = 0;
  double queued_bytes = 0;
  for (const shard_report& each : last_) {
    const auto known = static_cast<double>(each.clients.size());
    sessions += static_cast<double>(each.sessions);
    clients += known;
    subscriptions += static_cast<double>(each.subscriptions.open);
    queued_bytes += static_cast<double>(each.subscriptions.queued_bytes);
    granted_requests += known * static_cast<double>(each.credit_requests);
    granted_bytes += known * static_cast<double>(each.credit_bytes);
    for (const client_report& client : each.clients) {
      requests += static_cast<double>(client.requests);
      bytes += static_cast<double>(client.bytes);
    }
  }
  sessions_.Add({}).Set(sessions);
  subscriptions_.Add({}).Set(subscriptions);
  subscription_bytes_.Add({}).Set(queued_bytes);
  if (!last_.empty()) {  // each shard tells of the whole daemon
    arenas_.Add({}).Set(static_cast<double>(last_.front().shared_memory.arenas));
    shared_bytes_.Add({}).Set(static_cast<double>(last_.front().shared_memory.bytes));
    shared_device_bytes_.Add({}).Set(static_cast<double>(last_.front().shared_memory.device_bytes));
    peer_bytes_.Add({}).Set(static_cast<double>(last_.front().peer_memory));
    peer_limit_.Add({}).Set(static_cast<double>(last_.front().peer_memory_limit));
  }
  clients_.Add({}).Set(clients);
  credits_in_use_.Add({{"kind", "requests"}}).Set(requests);
  credits_in_use_.Add({{"kind", "bytes"}}).Set(bytes);
  credits_granted_.Add({{"kind", "requests"}}).Set(granted_requests);
  credits_granted_.Add({{"kind", "bytes"}}).Set(granted_bytes);
}

source_metrics::source_metrics(prometheus::Registry& into)
    : samples_(BuildCounter()
                   .Name("penstock_source_samples_total")
                   .Help("A source's samples: delivered to the pipeline, or lost in the network, in the kernel, by an "
                         "overrun, or late.")
                   .Register(into)),
      requests_(BuildCounter()
                    .Name("penstock_source_requests_total")
                    .Help("Requests of a source that ended: result, error.")
                    .Register(into)),
      events_(BuildCounter()
                  .Name("penstock_source_events_total")
                  .Help("What else happened to a source, such as gaps, epochs, stalls.")
                  .Register(into)),
      up_(BuildGauge()
              .Name("penstock_source_up")
              .Help("1 while the source's data comes; 0 while it is stalled, waits to try again, or has ended.")
              .Register(into)),
      waiting_(BuildGauge()
                   .Name("penstock_source_waiting_samples")
                   .Help("Samples in the queue, or in blocks that are not full.")
                   .Register(into)),
      queued_(
          BuildGauge().Name("penstock_source_queued_bytes").Help("Blocks that wait for the pipeline.").Register(into)) {
}

void source_metrics::take(const shard_answers& shards) {
  for (const auto& each : shards) {
    if (each) {
      for (const source_report& now : each->sources) {
        source_report& before = seen_[now.name];
        if (now.samples.expected < before.samples.expected) {
          before = {};  // it began anew
        }
        // What was lost and came late is lost no more; a counter does not fall.
        source_report risen = now;
        risen.samples.network = std::max(now.samples.network, before.samples.network);
        risen.samples.kernel = std::max(now.samples.kernel, before.samples.kernel);
        risen.events.filled = std::max(now.events.filled, before.events.filled);
        take(risen, before);
        before = risen;
      }
    }
  }
}

void source_metrics::take(const source_report& now, const source_report& before) {
  const auto add = [&](auto& family, const char* label, const char* what, std::uint64_t is, std::uint64_t was) {
    family.Add({{"source", now.name}, {label, what}}).Increment(rise(is, was));
  };
  const sample_counts& is = now.samples;
  const sample_counts& was = before.samples;
  add(samples_, "fate", "delivered", is.delivered, was.delivered);
  add(samples_, "fate", "network", is.network, was.network);
  add(samples_, "fate", "kernel", is.kernel, was.kernel);
  add(samples_, "fate", "overrun", is.overrun, was.overrun);
  add(samples_, "fate", "late", is.late, was.late);
  const source_events& events = now.events;
  const source_events& earlier = before.events;
  add(requests_, "outcome", "result", events.results, earlier.results);
  add(requests_, "outcome", "error", events.errors, earlier.errors);
  add(events_, "event", "filled_sample", events.filled, earlier.filled);
  add(events_, "event", "duplicate_sample", events.duplicates, earlier.duplicates);
  add(events_, "event", "restored_sample", events.restored, earlier.restored);
  add(events_, "event", "gap", events.gaps, earlier.gaps);
  add(events_, "event", "epoch", events.epochs, earlier.epochs);
  add(events_, "event", "suspected_loss", events.suspected, earlier.suspected);
  add(events_, "event", "malformed", events.malformed, earlier.malformed);
  add(events_, "event", "refused_stream", events.refused_streams, earlier.refused_streams);
  add(events_, "event", "stall", events.stalls, earlier.stalls);
  add(events_, "event", "connection", events.connections, earlier.connections);
  up_.Add({{"source", now.name}}).Set(now.state == source_state::running ? 1 : 0);
  waiting_.Add({{"source", now.name}}).Set(static_cast<double>(is.waiting));
  queued_.Add({{"source", now.name}}).Set(static_cast<double>(now.queued_bytes));
}

sink_metrics::sink_metrics(prometheus::Registry& into)
    : results_(BuildCounter()
                   .Name("penstock_sink_results_total")
                   .Help("Results that a sink is for: delivered, or dropped because nobody took them in time.")
                   .Register(into)),
      bytes_(BuildCounter().Name("penstock_sink_bytes_total").Help("Bytes that a sink has written.").Register(into)),
      pauses_(BuildCounter()
                  .Name("penstock_sink_pauses_total")
                  .Help("Times that a full sink paused the sources that its results come of.")
                  .Register(into)),
      up_(BuildGauge()
              .Name("penstock_sink_up")
              .Help("1 while its receiver takes what comes; 0 while it is full, or waits to try again.")
              .Register(into)),
      waiting_(BuildGauge().Name("penstock_sink_waiting_results").Help("Results in the queue.").Register(into)),
      queued_(BuildGauge().Name("penstock_sink_queued_bytes").Help("What the queue holds.").Register(into)) {}

void sink_metrics::take(const shard_answers& shards) {
  for (const auto& each : shards) {
    if (!each) {
      continue;
    }
    for (const sink_report& now : each->sinks) {
      sink_report& before = seen_[now.name];
      if (now.results.expected < before.results.expected) {
        before = {};  // it began anew
      }
      const auto add = [&](auto& family, std::uint64_t is, std::uint64_t was, prometheus::Labels labels) {
        labels.emplace("sink", now.name);
        family.Add(labels).Increment(rise(is, was));
      };
      add(results_, now.results.delivered, before.results.delivered, {{"fate", "delivered"}});
      add(results_, now.results.dropped, before.results.dropped, {{"fate", "dropped"}});
      add(bytes_, now.bytes, before.bytes, {});
      add(pauses_, now.pauses, before.pauses, {});
      up_.Add({{"sink", now.name}}).Set(now.state == sink_state::running ? 1 : 0);
      waiting_.Add({{"sink", now.name}}).Set(static_cast<double>(now.results.waiting));
      queued_.Add({{"sink", now.name}}).Set(static_cast<double>(now.queued_bytes));
      before = now;
    }
  }
}

metrics::metrics()
    : pipelines_(registry_),
      shards_(registry_),
      sources_(registry_),
      sinks_(registry_),
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
  sources_.take(shards);
  sinks_.take(shards);
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
