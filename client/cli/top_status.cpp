#include "client/cli/top_status.hpp"

#include <stdexcept>

#include <nlohmann/json.hpp>

namespace penstock::cli {
namespace {

using json = nlohmann::json;

const json& member(const json& of, const char* key) {
  static const json none = json::object();
  const auto found = of.find(key);
  return found == of.end() ? none : *found;
}

std::uint64_t count(const json& of, const char* key) {
  return of.value(key, std::uint64_t{0});
}

std::uint64_t sum_of(const json& counts) {
  std::uint64_t sum = 0;
  for (const auto& [name, number] : counts.items()) {
    sum += number.get<std::uint64_t>();
  }
  return sum;
}

stream_status read_stream(const json& from) {
  return {.number = from.value("stream", 0U),
          .copy_in_ns = count(from, "copy_in_ns"),
          .compute_ns = count(from, "compute_ns"),
          .copy_out_ns = count(from, "copy_out_ns"),
          .batches = count(from, "batches"),
          .timed_batches = count(from, "timed_batches")};
}

pipeline_status read_pipeline(const json& from) {
  const json& requests = member(from, "requests");
  pipeline_status read{.name = from.value("name", ""),
                       .results = count(requests, "results"),
                       .errors = sum_of(member(requests, "errors")),
                       .in_flight = count(requests, "in_flight"),
                       .frames = count(from, "frames"),
                       .batches = count(from, "batches"),
                       .batched_frames = count(from, "batched_frames"),
                       .closed = {},
                       .total_us = {}};
  for (const auto& [reason, batches] : member(from, "closed").items()) {
    read.closed[reason] = batches.get<std::uint64_t>();
  }
  for (const json& bucket : member(member(member(from, "timing_us"), "total"), "buckets")) {
    read.total_us[bucket.at(0).get<double>()] += bucket.at(1).get<std::uint64_t>();
  }
  return read;
}

client_status read_client(const json& from) {
  return {.name = from.value("name", ""),
          .place = from.value("place", 0U),
          .requests = count(from, "requests"),
          .bytes = count(from, "bytes"),
          .results = count(from, "results"),
          .dropped = count(from, "dropped")};
}

shard_status read_shard(const json& from) {
  const json& device = member(from, "device");
  const json& requests = member(from, "requests");
  const json& bytes = member(from, "payload_bytes");
  const json& credit = member(from, "credit");
  const json& sessions = member(from, "sessions");
  const json& slots = member(from, "slots");
  shard_status read{.number = from.value("shard", 0U),
                    .state = from.value("state", ""),
                    .instance = from.value("instance", ""),
                    .uptime_s = from.value("uptime_s", 0.0),
                    .device = device.value("name", ""),
                    .backend = device.value("backend", ""),
                    .device_detail = device.value("detail", ""),
                    .device_error = device.value("error", ""),
                    .results = count(requests, "results"),
                    .errors = sum_of(member(requests, "errors")),
                    .in_flight = count(requests, "in_flight"),
                    .refused = sum_of(member(from, "refused")),
                    .replies_dropped = count(member(from, "replies"), "dropped"),
                    .bytes_in = count(bytes, "in"),
                    .bytes_out = count(bytes, "out"),
                    .credit_requests = count(credit, "requests"),
                    .credit_bytes = count(credit, "bytes"),
                    .sessions = count(sessions, "open"),
                    .most_sessions = count(sessions, "most"),
                    .slots = count(slots, "total"),
                    .free_slots = count(slots, "free"),
                    .batches_in_flight = count(from, "batches_in_flight"),
                    .since_completion_s = from.value("since_completion_s", 0.0),
                    .streams = {},
                    .pipelines = {},
                    .clients = {}};
  for (const json& each : member(from, "streams")) {
    read.streams.push_back(read_stream(each));
  }
  for (const json& each : member(from, "pipelines")) {
    read.pipelines.push_back(read_pipeline(each));
  }
  for (const json& each : member(from, "clients")) {
    read.clients.push_back(read_client(each));
  }
  return read;
}

}  // namespace

daemon_status read_daemon_status(std::string_view text) {
  try {
    const json from = json::parse(text);
    const json& configuration = member(from, "configuration");
    daemon_status read{.server = from.at("server").get<std::string>(),
                       .state = from.value("state", ""),
                       .uptime_s = from.value("uptime_s", 0.0),
                       .start_time_s = from.value("start_time_s", 0.0),
                       .configuration = count(configuration, "version"),
                       .hash = configuration.value("hash", ""),
                       .missing_shards = from.value("missing_shards", std::vector<std::uint32_t>{}),
                       .shards = {}};
    for (const json& each : from.at("shards")) {
      read.shards.push_back(read_shard(each));
    }
    return read;
  } catch (const json::exception& wrong) {
    throw std::runtime_error(std::string("the answer is no status of a penstockd: ") + wrong.what());
  }
}

}  // namespace penstock::cli
