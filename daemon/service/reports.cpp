#include "daemon/service/reports.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "base/quantity.hpp"
#include "daemon/service/metrics.hpp"
#include "daemon/telemetry/report.hpp"
#include "penstock_version.hpp"
#include "proto/chrome_trace.hpp"
#include "proto/message.hpp"

namespace penstock {

void shard_reports::ask(consumer done) {
  if (last_ && now_() - last_at_ < freshness) {
    done(last_);
    return;
  }
  waiting_.push_back(std::move(done));
  if (waiting_.size() == 1) {
    ask_all_([this](shard_answers answers) { take(std::move(answers)); });
  }
}

void shard_reports::take(shard_answers answers) {
  const bool whole = std::all_of(answers.begin(), answers.end(), [](const auto& each) { return each.has_value(); });
  const auto made = std::make_shared<const shard_answers>(std::move(answers));
  last_ = whole ? made : nullptr;
  last_at_ = now_();
  for (const consumer& each : std::exchange(waiting_, {})) {
    each(made);
  }
}

namespace {

// A page that is not its shard's newest ends where the next batch does not fit, which is in its last three quarters.
constexpr std::size_t small_page = wire::max_body_bytes / 4;
// A shard that is quicker than it is read would never be caught up with.
constexpr std::size_t most_rounds = 4096;

std::string timeline_of(const std::deque<std::string>& pages, std::chrono::nanoseconds last) {
  try {
    chrome_trace made;
    std::int64_t now = 0;
    for (const std::string& page : pages) {
      made.add(page);
      now = std::max(now, made.last_page().now_ns);
    }
    made.keep_since(now - last.count());
    std::ostringstream out;
    made.write(out);
    return std::move(out).str();
  } catch (const std::exception& wrong) {
    spdlog::error("no timeline could be made: {}", wrong.what());
    return "";
  }
}

}  // namespace

trace_collector::trace_collector(boost::asio::io_context& admin, question ask) : admin_(admin), ask_(std::move(ask)) {}

void trace_collector::collect(std::size_t shards, std::chrono::nanoseconds last, consumer done) {
  gathered_ = std::make_shared<gathering>();
  gathered_->last = last;
  gathered_->done = std::move(done);
  gathered_->next.assign(shards, 0);
  ask();
}

void trace_collector::ask() {
  ask_(gathered_->next, [this](const timeline_answers& answers) { take(answers); });
}

void trace_collector::take(const timeline_answers& answers) {
  gathering& into = *gathered_;
  bool any_left = false;
  for (std::size_t number = 0; number < answers.size(); ++number) {
    if (!into.next[number]) {
      continue;
    }
    if (!answers[number]) {
      into.next[number].reset();
      continue;
    }
    const timeline_page& page = *answers[number];
    into.next[number] = page.next;
    if (page.json.size() < small_page) {
      into.next[number].reset();
    }
    any_left = any_left || into.next[number];
    into.bytes += page.json.size();
    into.pages.push_back(page.json);
  }
  for (; into.bytes > most_bytes; into.pages.pop_front()) {
    into.bytes -= into.pages.front().size();
  }
  if (any_left && ++into.rounds < most_rounds) {
    ask();
  } else {
    write();
  }
}

void trace_collector::write() {
  boost::asio::post(writer_, [this, from = gathered_] {
    boost::asio::post(admin_, [this, from, made = timeline_of(from->pages, from->last)]() mutable {
      gathered_ = nullptr;
      from->done(std::move(made));
    });
  });
}

namespace {

using json = nlohmann::ordered_json;

json configuration_json(const configuration_report& configuration) {
  return {{"version", configuration.version}, {"hash", configuration.hash}};
}

json streams_json(const std::vector<stream_timing>& streams) {
  json list = json::array();
  for (const stream_timing& each : streams) {
    list.push_back({{"stream", list.size()},
                    {"copy_in_ns", each.copy_in.count()},
                    {"compute_ns", each.compute.count()},
                    {"copy_out_ns", each.copy_out.count()},
                    {"batches", each.batches},
                    {"timed_batches", each.timed_batches}});
  }
  return list;
}

// The whole time by buckets, too.
json timing_json(const pipeline_timing& timing) {
  json all = json_of(timing);
  if (all.contains("total")) {
    json& buckets = all["total"]["buckets"] = json::array();
    timing.total.for_each_bucket([&](std::chrono::nanoseconds end, std::uint64_t count) {
      buckets.push_back({std::chrono::duration<double, std::micro>(end).count(), count});
    });
  }
  return all;
}

json pipeline_json(const pipeline_report& pipeline) {
  const auto& batches_of = pipeline.counters.batch_sizes;
  json sizes = json::array();
  for (std::size_t each = 0; each < batches_of.size(); ++each) {
    if (batches_of[each] != 0) {
      const bool last = each + 1 == batches_of.size();
      sizes.push_back({last ? json() : json(std::uint64_t{1} << each), batches_of[each]});
    }
  }
  json made = json_of(pipeline);
  made["batch_sizes"] = sizes;
  made["timing_us"] = timing_json(pipeline.timing);
  return made;
}

json pipelines_json(const std::vector<pipeline_report>& pipelines) {
  json list = json::array();
  for (const pipeline_report& each : pipelines) {
    list.push_back(pipeline_json(each));
  }
  return list;
}

json clients_json(const std::vector<client_report>& clients) {
  json list = json::array();
  for (const client_report& each : clients) {
    list.push_back({{"name", each.name},
                    {"place", each.place},
                    {"requests", each.requests},
                    {"bytes", each.bytes},
                    {"results", each.results},
                    {"dropped", each.dropped},
                    {"subscriptions", each.subscriptions},
                    {"published", each.published},
                    {"lost", each.lost},
                    {"source", each.is_source}});
  }
  return list;
}

json shard_json(const shard_report& shard) {
  const account& counters = shard.counters;
  return {{"shard", shard.shard},
          {"state", shard.state},
          {"instance", shard.instance},
          {"uptime_s", seconds(shard.uptime)},
          {"configuration", configuration_json(shard.configuration)},
          {"device",
           {{"backend", shard.facts.backend},
            {"name", shard.facts.name},
            {"detail", shard.facts.detail},
            {"pinned_bytes", shard.memory.pinned},
            {"memory_bytes", shard.memory.device},
            {"error", shard.device_error},
            {"suspects", shard.suspects}}},
          {"received", counters.received},
          {"requests", json_of(counters.requests)},
          {"refused", refused_json(counters)},
          {"repeats", {{"ignored", counters.repeats_ignored}, {"answered", counters.repeats_answered}}},
          {"replies",
           {{"sent", counters.replies_sent},
            {"dropped", counters.replies_dropped},
            {"undeliverable", counters.replies_undeliverable}}},
          {"subscriptions", subscriptions_json(shard)},
          {"control", {{"delayed", counters.control_delayed}, {"dropped", counters.control_dropped}}},
          {"payload_bytes", {{"in", counters.payload_bytes_in}, {"out", counters.payload_bytes_out}}},
          {"handshakes_refused", refused_json(shard.handshakes)},
          {"credit", {{"requests", shard.credit_requests}, {"bytes", shard.credit_bytes}}},
          {"places", {{"resumed", counters.clients_resumed}, {"lost", counters.clients_lost}}},
          {"sessions", {{"open", shard.sessions}, {"most", shard.max_sessions}}},
          {"shared_memory",
           {{"arenas", shard.shared_memory.arenas},
            {"bytes", shard.shared_memory.bytes},
            {"device_bytes", shard.shared_memory.device_bytes}}},
          {"copied_bytes",
           {{"in", shard.copied.in}, {"out", shard.copied.out}, {"within_device", shard.copied.within_device}}},
          {"peer_memory", {{"bytes", shard.peer_memory}, {"limit", shard.peer_memory_limit}}},
          {"slots", {{"total", shard.slots}, {"free", shard.free_slots}}},
          {"batches_in_flight", shard.batches_in_flight},
          {"batches_done", shard.batches_done},
          {"since_completion_s", seconds(shard.since_completion)},
          {"standing_still_s", seconds(shard.standing_still)},
          {"streams", streams_json(shard.streams)},
          {"pipelines", pipelines_json(shard.pipelines)},
          {"quarantine", json_of(shard.refused)},
          {"clients", clients_json(shard.clients)},
          {"sources", json_of(shard.sources)},
          {"sinks", json_of(shard.sinks)}};
}

}  // namespace

configuration_report configuration_of(const shard_answers& shards) {
  const configuration_report* lowest = nullptr;
  for (const auto& each : shards) {
    if (each && (lowest == nullptr || each->configuration.version < lowest->version)) {
      lowest = &each->configuration;
    }
  }
  return lowest == nullptr ? configuration_report{} : *lowest;
}

std::string print_status(const daemon_facts& facts, const shard_answers& shards) {
  json missing = json::array();
  json list = json::array();
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (shards[number]) {
      list.push_back(shard_json(*shards[number]));
    } else {
      missing.push_back(number);
    }
  }
  const json all = {{"server", std::string("penstockd ") + version},
                    {"state", name_of(facts.state)},
                    {"uptime_s", seconds(facts.uptime)},
                    {"start_time_s", std::chrono::duration<double>(facts.started.time_since_epoch()).count()},
                    {"configuration", configuration_json(configuration_of(shards))},
                    {"missing_shards", missing},
                    {"shards", list}};
  // A client's name and a device's error are others' words.
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace penstock
