#include "daemon/admin/http/shard_metrics.hpp"

#include <algorithm>
#include <chrono>

#include "daemon/admin/http/rise.hpp"
#include "daemon/admin/http/seconds.hpp"
#include "proto/status.hpp"

namespace penstock {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;

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
      payload_bytes_(counter(into, "penstock_payload_bytes_total", "Bytes of tensors, from clients and to them.")),
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
      places_short_(gauge(into, "penstock_places_short",
                          "Whether clients or sessions were lately turned away because every place was taken.")),
      arenas_(gauge(into, "penstock_shared_memory_arenas", "Pieces of memory that clients share with the daemon.")),
      shared_bytes_(gauge(into, "penstock_shared_memory_bytes", "Memory that clients share with the daemon.")),
      peer_bytes_(gauge(into, "penstock_peer_memory_bytes", "Host memory granted to peers, out of the limit.")),
      peer_limit_(gauge(into, "penstock_peer_memory_limit_bytes", "The limit of it: limits.memory.")),
      clients_(gauge(into, "penstock_clients", "Clients that are known.")),
      credits_in_use_(gauge(into, "penstock_credits_in_use", "What all clients have in flight: requests, bytes.")),
      credits_granted_(
          gauge(into, "penstock_credits_granted", "What all clients may have in flight: requests, bytes.")),
      device_healthy_(gauge(into, "penstock_device_healthy", "Whether the shard's device has no error that stays.")),
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
  payload_bytes_.Add({{"direction", "in"}}).Increment(rise(now.payload_bytes_in, before.payload_bytes_in));
  payload_bytes_.Add({{"direction", "out"}}).Increment(rise(now.payload_bytes_out, before.payload_bytes_out));
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
  const auto with = [&](const char* name, const char* value) {
    prometheus::Labels labels = shard;
    labels.emplace(name, value);
    return labels;
  };
  slots_.Add(with("state", "free")).Set(static_cast<double>(now.free_slots));
  slots_.Add(with("state", "used")).Set(static_cast<double>(now.slots - now.free_slots));
  places_short_.Add(with("of", "clients")).Set(now.short_of_clients ? 1 : 0);
  places_short_.Add(with("of", "sessions")).Set(now.short_of_sessions ? 1 : 0);
  batches_in_flight_.Add(shard).Set(static_cast<double>(now.batches_in_flight));
  device_healthy_.Add(shard).Set(now.device_error.empty() ? 1 : 0);
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
  for (const shard_report& each : last_) {
    const auto known = static_cast<double>(each.clients.size());
    sessions += static_cast<double>(each.sessions);
    clients += known;
    granted_requests += known * static_cast<double>(each.credit_requests);
    granted_bytes += known * static_cast<double>(each.credit_bytes);
    for (const client_report& client : each.clients) {
      requests += static_cast<double>(client.requests);
      bytes += static_cast<double>(client.bytes);
    }
  }
  sessions_.Add({}).Set(sessions);
  if (!last_.empty()) {  // each shard tells of the whole daemon
    arenas_.Add({}).Set(static_cast<double>(last_.front().shared_memory.arenas));
    shared_bytes_.Add({}).Set(static_cast<double>(last_.front().shared_memory.bytes));
    peer_bytes_.Add({}).Set(static_cast<double>(last_.front().peer_memory));
    peer_limit_.Add({}).Set(static_cast<double>(last_.front().peer_memory_limit));
  }
  clients_.Add({}).Set(clients);
  credits_in_use_.Add({{"kind", "requests"}}).Set(requests);
  credits_in_use_.Add({{"kind", "bytes"}}).Set(bytes);
  credits_granted_.Add({{"kind", "requests"}}).Set(granted_requests);
  credits_granted_.Add({{"kind", "bytes"}}).Set(granted_bytes);
}

}  // namespace penstock
