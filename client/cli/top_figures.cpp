#include "client/cli/top_figures.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>

#include <nlohmann/json.hpp>

namespace penstock::cli {
namespace {

using json_value = nlohmann::json;

const json_value& member(const json_value& object, const char* key) {
  static const json_value none = json_value::object();
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

std::uint64_t count(const json_value& object, const char* key) {
  return object.value(key, std::uint64_t{0});
}

std::uint64_t sum_of(const json_value& counts) {
  std::uint64_t sum = 0;
  for (const auto& [name, number] : counts.items()) {
    sum += number.get<std::uint64_t>();
  }
  return sum;
}

stream_status read_stream(const json_value& object) {
  return {.number = object.value("stream", 0U),
          .copy_in_ns = count(object, "copy_in_ns"),
          .compute_ns = count(object, "compute_ns"),
          .copy_out_ns = count(object, "copy_out_ns"),
          .batches = count(object, "batches"),
          .timed_batches = count(object, "timed_batches")};
}

pipeline_status read_pipeline(const json_value& object) {
  const json_value& requests = member(object, "requests");
  pipeline_status read{.name = object.value("name", ""),
                       .results = count(requests, "results"),
                       .errors = sum_of(member(requests, "errors")),
                       .in_flight = count(requests, "in_flight"),
                       .frames = count(object, "frames"),
                       .batches = count(object, "batches"),
                       .batched_frames = count(object, "batched_frames"),
                       .closed = {},
                       .total_us = {}};
  for (const auto& [reason, batches] : member(object, "closed").items()) {
    read.closed[reason] = batches.get<std::uint64_t>();
  }
  for (const json_value& bucket : member(member(member(object, "timing_us"), "total"), "buckets")) {
    read.total_us[bucket.at(0).get<double>()] += bucket.at(1).get<std::uint64_t>();
  }
  return read;
}

client_status read_client(const json_value& object) {
  return {.name = object.value("name", ""),
          .place = object.value("place", 0U),
          .requests = count(object, "requests"),
          .bytes = count(object, "bytes"),
          .results = count(object, "results") + count(object, "published"),
          .dropped = count(object, "dropped") + count(object, "lost")};
}

source_status read_source(const json_value& object) {
  const json_value& samples = member(object, "samples");
  const json_value& queue = member(object, "queue");
  return {.name = object.value("name", ""),
          .state = object.value("state", ""),
          .trouble = object.value("trouble", ""),
          .expected = count(samples, "expected"),
          .delivered = count(samples, "delivered"),
          .lost = count(samples, "network") + count(samples, "kernel"),
          .overrun = count(samples, "overrun"),
          .late = count(samples, "late"),
          .gaps = count(object, "gaps"),
          .epochs = count(object, "epochs"),
          .queued_bytes = count(queue, "bytes"),
          .queue_bytes = count(queue, "limit")};
}

sink_status read_sink(const json_value& object) {
  const json_value& results = member(object, "results");
  const json_value& queue = member(object, "queue");
  return {.name = object.value("name", ""),
          .state = object.value("state", ""),
          .trouble = object.value("trouble", ""),
          .delivered = count(results, "delivered"),
          .dropped = count(results, "dropped"),
          .bytes = count(object, "bytes"),
          .pauses = count(object, "pauses"),
          .queued_bytes = count(queue, "bytes"),
          .queue_bytes = count(queue, "limit")};
}

shard_status read_shard(const json_value& object) {
  const json_value& device = member(object, "device");
  const json_value& requests = member(object, "requests");
  const json_value& bytes = member(object, "payload_bytes");
  const json_value& credit = member(object, "credit");
  const json_value& sessions = member(object, "sessions");
  const json_value& slots = member(object, "slots");
  shard_status read{.number = object.value("shard", 0U),
                    .state = object.value("state", ""),
                    .instance = object.value("instance", ""),
                    .uptime_s = object.value("uptime_s", 0.0),
                    .device = device.value("name", ""),
                    .backend = device.value("backend", ""),
                    .device_detail = device.value("detail", ""),
                    .device_error = device.value("error", ""),
                    .results = count(requests, "results"),
                    .errors = sum_of(member(requests, "errors")),
                    .in_flight = count(requests, "in_flight"),
                    .refused = sum_of(member(object, "refused")),
                    .replies_dropped = count(member(object, "replies"), "dropped"),
                    .subscriptions = count(member(object, "subscriptions"), "open"),
                    .published = count(member(object, "subscriptions"), "published"),
                    .published_lost = count(member(object, "subscriptions"), "dropped"),
                    .bytes_in = count(bytes, "in"),
                    .bytes_out = count(bytes, "out"),
                    .credit_requests = count(credit, "requests"),
                    .credit_bytes = count(credit, "bytes"),
                    .sessions = count(sessions, "open"),
                    .most_sessions = count(sessions, "most"),
                    .slots = count(slots, "total"),
                    .free_slots = count(slots, "free"),
                    .batches_in_flight = count(object, "batches_in_flight"),
                    .since_completion_s = object.value("since_completion_s", 0.0),
                    .streams = {},
                    .pipelines = {},
                    .clients = {},
                    .sources = {},
                    .sinks = {}};
  for (const json_value& each : member(object, "sources")) {
    read.sources.push_back(read_source(each));
  }
  for (const json_value& each : member(object, "sinks")) {
    read.sinks.push_back(read_sink(each));
  }
  for (const json_value& each : member(object, "streams")) {
    read.streams.push_back(read_stream(each));
  }
  for (const json_value& each : member(object, "pipelines")) {
    read.pipelines.push_back(read_pipeline(each));
  }
  for (const json_value& each : member(object, "clients")) {
    read.clients.push_back(read_client(each));
  }
  return read;
}

}  // namespace

daemon_status read_daemon_status(std::string_view text) {
  try {
    const json_value object = json_value::parse(text);
    const json_value& configuration = member(object, "configuration");
    daemon_status read{.server = object.at("server").get<std::string>(),
                       .state = object.value("state", ""),
                       .uptime_s = object.value("uptime_s", 0.0),
                       .start_time_s = object.value("start_time_s", 0.0),
                       .configuration = count(configuration, "version"),
                       .hash = configuration.value("hash", ""),
                       .missing_shards = object.value("missing_shards", std::vector<std::uint32_t>{}),
                       .shards = {}};
    for (const json_value& each : object.at("shards")) {
      read.shards.push_back(read_shard(each));
    }
    return read;
  } catch (const json_value::exception& wrong) {
    throw std::runtime_error(std::string("the answer is no status of a penstockd: ") + wrong.what());
  }
}

namespace {

std::uint64_t difference(std::uint64_t before, std::uint64_t now) {
  return now >= before ? now - before : now;
}

double rate(std::uint64_t before, std::uint64_t now, double seconds) {
  return seconds > 0 ? static_cast<double>(difference(before, now)) / seconds : 0;
}

template <class Key>
std::map<Key, std::uint64_t> difference(const std::map<Key, std::uint64_t>& before,
                                        const std::map<Key, std::uint64_t>& now) {
  std::map<Key, std::uint64_t> apart;
  for (const auto& [key, count] : now) {
    const auto earlier = before.find(key);
    apart[key] = difference(earlier == before.end() ? 0 : earlier->second, count);
  }
  return apart;
}

/// The one of `all` for which `fits` holds; a static empty one when there is none.
template <class Element, class Predicate>
const Element& find_or_empty(const std::vector<Element>& all, Predicate fits) {
  static const Element empty{};
  const auto found = std::find_if(all.begin(), all.end(), fits);
  return found == all.end() ? empty : *found;
}

double busy_part(std::uint64_t before_ns, std::uint64_t now_ns, double scale, double seconds) {
  const double busy_s = static_cast<double>(difference(before_ns, now_ns)) * 1e-9 * scale;
  return seconds > 0 ? std::clamp(busy_s / seconds, 0.0, 1.0) : 0;
}

stream_figures figures_of(const stream_status& before, const stream_status& now, std::uint32_t shard, double seconds) {
  const auto timed = static_cast<double>(difference(before.timed_batches, now.timed_batches));
  const auto all = static_cast<double>(difference(before.batches, now.batches));
  // Some batches are timed, and stand for the others.
  const double scale = timed > 0 ? std::max(all / timed, 1.0) : 0;
  return {.shard = shard,
          .stream = now.number,
          .copy_in = busy_part(before.copy_in_ns, now.copy_in_ns, scale, seconds),
          .compute = busy_part(before.compute_ns, now.compute_ns, scale, seconds),
          .copy_out = busy_part(before.copy_out_ns, now.copy_out_ns, scale, seconds),
          .known = timed > 0 || all == 0};
}

client_figures figures_of(const client_status& before, const client_status& now, const shard_status& shard,
                          double seconds) {
  const auto part = [](std::uint64_t taken, std::uint64_t granted) {
    return granted == 0 ? 0.0 : static_cast<double>(taken) / static_cast<double>(granted);
  };
  return {.name = now.name,
          .shard = shard.number,
          .place = now.place,
          .requests = now.requests,
          .credits = shard.credit_requests,
          .bytes = now.bytes,
          .results_per_s = rate(before.results, now.results, seconds),
          .dropped = now.dropped,
          .dropped_per_s = rate(before.dropped, now.dropped, seconds),
          .held = std::max(part(now.requests, shard.credit_requests), part(now.bytes, shard.credit_bytes))};
}

source_figures figures_of(const source_status& before, const source_status& now, std::uint32_t shard, double seconds) {
  return {
      .name = now.name,
      .shard = shard,
      .state = now.state,
      .trouble = now.trouble,
      .delivered_per_s = rate(before.delivered, now.delivered, seconds),
      .queued = now.queue_bytes == 0 ? 0 : static_cast<double>(now.queued_bytes) / static_cast<double>(now.queue_bytes),
      .lost = now.lost,
      .lost_per_s = rate(before.lost + before.overrun, now.lost + now.overrun, seconds),
      .overrun = now.overrun,
      .late = now.late,
      .epochs = now.epochs};
}

sink_figures figures_of(const sink_status& before, const sink_status& now, double seconds) {
  return {
      .name = now.name,
      .state = now.state,
      .trouble = now.trouble,
      .delivered_per_s = rate(before.delivered, now.delivered, seconds),
      .bytes_per_s = rate(before.bytes, now.bytes, seconds),
      .queued = now.queue_bytes == 0 ? 0 : static_cast<double>(now.queued_bytes) / static_cast<double>(now.queue_bytes),
      .dropped = now.dropped,
      .dropped_per_s = rate(before.dropped, now.dropped, seconds),
      .pauses = now.pauses};
}

shard_figures figures_of(const shard_status& before, const shard_status& now, double seconds) {
  return {.number = now.number,
          .state = now.state,
          .device_error = now.device_error,
          .results_per_s = rate(before.results, now.results, seconds),
          .in_flight = now.in_flight,
          .slots_taken = difference(now.free_slots, now.slots),
          .slots = now.slots,
          .sessions = now.sessions,
          .most_sessions = now.most_sessions,
          .clients = now.clients.size(),
          .since_completion_s = now.since_completion_s};
}

/// What shards' pipelines of one name did in the interval, added up.
struct pipeline_sums {
  pipeline_figures figures;
  std::uint64_t batches = 0;
  std::uint64_t batched_frames = 0;
  std::map<std::string, std::uint64_t> closed;
  std::map<double, std::uint64_t> total_us;
};

void add(pipeline_sums& sums, const pipeline_status& before, const pipeline_status& now, double seconds) {
  sums.figures.results_per_s += rate(before.results, now.results, seconds);
  sums.figures.frames_per_s += rate(before.batched_frames, now.batched_frames, seconds);
  sums.figures.errors_per_s += rate(before.errors, now.errors, seconds);
  sums.figures.in_flight += now.in_flight;
  sums.batches += difference(before.batches, now.batches);
  sums.batched_frames += difference(before.batched_frames, now.batched_frames);
  for (const auto& [reason, batches] : difference(before.closed, now.closed)) {
    sums.closed[reason] += batches;
  }
  for (const auto& [upper_end, requests] : difference(before.total_us, now.total_us)) {
    sums.total_us[upper_end] += requests;
  }
}

std::optional<double> quantile(const std::map<double, std::uint64_t>& buckets, double part) {
  std::uint64_t all = 0;
  for (const auto& [upper_end, requests] : buckets) {
    all += requests;
  }
  const double wanted = std::max(std::ceil(part * static_cast<double>(all)), 1.0);
  std::uint64_t seen = 0;
  for (const auto& [upper_end, requests] : buckets) {
    seen += requests;
    if (static_cast<double>(seen) >= wanted) {
      return upper_end;
    }
  }
  return std::nullopt;
}

pipeline_figures finished(pipeline_sums sums) {
  std::uint64_t closed = 0;
  std::uint64_t most = 0;
  for (const auto& [reason, batches] : sums.closed) {
    closed += batches;
    if (batches > most) {
      most = batches;
      sums.figures.close_reason = reason;
    }
  }
  sums.figures.close_share = closed == 0 ? 0 : static_cast<double>(most) / static_cast<double>(closed);
  if (sums.batches != 0) {
    sums.figures.frames_per_batch = static_cast<double>(sums.batched_frames) / static_cast<double>(sums.batches);
  }
  sums.figures.p50_us = quantile(sums.total_us, 0.5);
  sums.figures.p99_us = quantile(sums.total_us, 0.99);
  return std::move(sums.figures);
}

std::string device_text(const daemon_status& now) {
  std::vector<std::string> names;
  for (const shard_status& each : now.shards) {
    names.push_back(each.device + " (" + each.backend + ", " + each.device_detail + ")");
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : "; ") + name;
  }
  return text;
}

void add_shard(top_figures& figures, std::vector<pipeline_sums>& pipelines, const shard_status& before,
               const shard_status& now) {
  const double seconds = now.uptime_s - before.uptime_s;
  figures.shards.push_back(figures_of(before, now, seconds));
  figures.results_per_s += figures.shards.back().results_per_s;
  figures.errors_per_s += rate(before.errors, now.errors, seconds);
  figures.refused_per_s += rate(before.refused, now.refused, seconds);
  figures.bytes_in_per_s += rate(before.bytes_in, now.bytes_in, seconds);
  figures.bytes_out_per_s += rate(before.bytes_out, now.bytes_out, seconds);
  figures.subscriptions += now.subscriptions;
  figures.published_per_s += rate(before.published, now.published, seconds);
  figures.published_lost_per_s += rate(before.published_lost, now.published_lost, seconds);
  for (const stream_status& each : now.streams) {
    const auto same = [&](const stream_status& other) { return other.number == each.number; };
    figures.streams.push_back(figures_of(find_or_empty(before.streams, same), each, now.number, seconds));
  }
  for (const pipeline_status& each : now.pipelines) {
    const auto same = [&](const pipeline_status& other) { return other.name == each.name; };
    auto sums = std::find_if(pipelines.begin(), pipelines.end(),
                             [&](const pipeline_sums& other) { return other.figures.name == each.name; });
    if (sums == pipelines.end()) {
      sums = pipelines.emplace(pipelines.end());
      sums->figures.name = each.name;
    }
    add(*sums, find_or_empty(before.pipelines, same), each, seconds);
  }
  for (const client_status& each : now.clients) {
    const auto same = [&](const client_status& other) { return other.place == each.place && other.name == each.name; };
    figures.clients.push_back(figures_of(find_or_empty(before.clients, same), each, now, seconds));
  }
  for (const source_status& each : now.sources) {
    const auto same = [&](const source_status& other) { return other.name == each.name; };
    figures.sources.push_back(figures_of(find_or_empty(before.sources, same), each, now.number, seconds));
  }
  for (const sink_status& each : now.sinks) {
    const auto same = [&](const sink_status& other) { return other.name == each.name; };
    figures.sinks.push_back(figures_of(find_or_empty(before.sinks, same), each, seconds));
  }
}

}  // namespace

top_figures figures_of(const daemon_status* before, const daemon_status& now) {
  const bool restarted = before != nullptr && now.uptime_s < before->uptime_s;
  const bool apart = before != nullptr && !restarted && now.uptime_s > before->uptime_s;
  top_figures made{.interval_s = apart ? now.uptime_s - before->uptime_s : 0,
                   .restarted = restarted,
                   .server = now.server,
                   .state = now.state,
                   .device = device_text(now),
                   .uptime_s = now.uptime_s,
                   .configuration = now.configuration,
                   .hash = now.hash,
                   .shards = {},
                   .streams = {},
                   .pipelines = {},
                   .clients = {},
                   .sources = {},
                   .sinks = {}};
  std::vector<pipeline_sums> pipelines;
  static const std::vector<shard_status> none;
  for (const shard_status& each : now.shards) {
    const auto same = [&](const shard_status& other) {
      return other.number == each.number && other.instance == each.instance && other.uptime_s < each.uptime_s;
    };
    add_shard(made, pipelines, find_or_empty(apart ? before->shards : none, same), each);
  }
  for (const std::uint32_t missing : now.missing_shards) {
    made.shards.push_back({.number = missing, .state = "missing", .device_error = ""});
  }
  for (pipeline_sums& each : pipelines) {
    made.pipelines.push_back(finished(std::move(each)));
    made.frames_per_s += made.pipelines.back().frames_per_s;
  }
  return made;
}

void sort_figures(top_figures& figures, top_order order) {
  const auto name_of_pipeline = [](const pipeline_figures& pipeline) { return pipeline.name; };
  const auto place_of_client = [](const client_figures& client) {
    return std::tuple(client.name, client.shard, client.place);
  };
  std::sort(figures.pipelines.begin(), figures.pipelines.end(), [&](const auto& left, const auto& right) {
    const auto key = [&](const pipeline_figures& pipeline) {
      return order == top_order::busy      ? -pipeline.results_per_s
             : order == top_order::trouble ? -pipeline.errors_per_s
                                           : 0;
    };
    return std::tuple(key(left), name_of_pipeline(left)) < std::tuple(key(right), name_of_pipeline(right));
  });
  std::sort(figures.sources.begin(), figures.sources.end(), [&](const auto& left, const auto& right) {
    const auto key = [&](const source_figures& source) {
      return order == top_order::busy ? -source.delivered_per_s : order == top_order::trouble ? -source.lost_per_s : 0;
    };
    return std::tuple(key(left), left.name) < std::tuple(key(right), right.name);
  });
  std::sort(figures.sinks.begin(), figures.sinks.end(), [&](const auto& left, const auto& right) {
    const auto key = [&](const sink_figures& sink) {
      return order == top_order::busy ? -sink.delivered_per_s : order == top_order::trouble ? -sink.dropped_per_s : 0;
    };
    return std::tuple(key(left), left.name) < std::tuple(key(right), right.name);
  });
  std::sort(figures.clients.begin(), figures.clients.end(), [&](const auto& left, const auto& right) {
    const auto key = [&](const client_figures& client) {
      return order == top_order::busy      ? std::tuple(-client.held, -client.results_per_s)
             : order == top_order::trouble ? std::tuple(-client.dropped_per_s, -static_cast<double>(client.dropped))
                                           : std::tuple(0.0, 0.0);
    };
    return std::tuple(key(left), place_of_client(left)) < std::tuple(key(right), place_of_client(right));
  });
}

}  // namespace penstock::cli
