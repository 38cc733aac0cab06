#include "daemon/config/client_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "proto/message.hpp"

namespace penstock {
namespace {

// libzmq 4.3.4 receives small messages into 8 KiB, beside which it counts their references (`decoder_allocators.cpp`).
// A small payload that waits keeps all of it, its headers with it.
constexpr std::size_t receive_bytes = std::size_t{18} << 10U;

// ZeroMQ's own of each message, and the headers.
constexpr std::size_t small_reply_bytes = least_counted_reply_bytes + 512;
// A client that has only just come may have this part of what is left: so many find room that nobody is shut out.
constexpr std::size_t share_of_client = 16;
constexpr std::size_t share_of_machine = 4;

// Of a slot: the largest batch's payloads and results.
std::size_t slot_bytes(const pipeline_declaration& pipeline, const client_settings& clients) {
  const std::size_t request = largest_request(pipeline.frame_bytes(), pipeline.batch, clients);
  const std::size_t frames = request / std::max<std::size_t>(pipeline.frame_bytes(), 1);
  std::size_t reply = wire::part_bytes(pipeline.outputs.size());
  for (const stage_declaration& stage : pipeline.stages) {
    for (const operator_output& each : stage.outputs()) {
      const bool given_back = std::count(pipeline.outputs.begin(), pipeline.outputs.end(), each.name) != 0;
      reply += given_back ? frames * each.spec.bytes() : 0;
    }
  }
  return request + reply;
}

client_needs needs_of_client(const settings& settings) {
  std::size_t largest = 0;
  bool keeps_state = false;
  for (const pipeline_declaration& pipeline : settings.pipelines) {
    largest = std::max(largest, largest_request(pipeline.frame_bytes(), pipeline.batch, settings.clients));
    keeps_state |= std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                               [](const stage_declaration& stage) { return stage.session.has_value(); });
  }
  return needs_of_client(settings.clients, largest, keeps_state);
}

// "12.5 GiB", in the largest unit that it reaches.
std::string rounded(std::size_t bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) {
    value /= 1024;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g %s", value, units[unit]);
  return text.data();
}

}  // namespace

int replies_under_way(const client_settings& clients) noexcept {
  return 2 * static_cast<int>(std::min<std::uint32_t>(clients.credit_requests, 1U << 20U)) + 64;
}

std::size_t largest_request(std::size_t frame_bytes, const batch_limits& batch,
                            const client_settings& clients) noexcept {
  const std::size_t frame = std::max<std::size_t>(frame_bytes, 1);
  const std::size_t most = std::min({batch.max_bytes, clients.max_request_bytes, clients.credit_bytes});
  return frame * std::clamp<std::size_t>(most / frame, 1,
                                         static_cast<std::size_t>(std::max<std::int64_t>(batch.max_frames, 1)));
}

client_needs needs_of_client(const client_settings& clients, std::size_t largest_request, bool keeps_state) {
  // Requests that ended early and still go through their sessions: check_abandoned lets them reach twice the credits.
  const std::size_t windows = keeps_state ? 3 : 1;
  return {.windows = windows,
          .overhead = windows * clients.credit_requests * receive_bytes +
                      static_cast<std::size_t>(replies_under_way(clients)) * small_reply_bytes +
                      clients.reply_cache_bytes,
          .least_credits = std::min(largest_request, clients.credit_bytes)};
}

std::size_t client_needs::credits(std::size_t left, std::size_t configured) const noexcept {
  const std::size_t share = left / share_of_client;
  const std::size_t bytes = (share - std::min(overhead, share)) / windows;
  return std::clamp(bytes, least_credits, std::max(configured, least_credits));
}

std::size_t memory_limit(const settings& settings, std::size_t machine) noexcept {
  return settings.limits.memory != 0 ? settings.limits.memory : machine / share_of_machine;
}

void check_memory_limit(const settings& settings, std::size_t limit) {
  const client_needs needs = needs_of_client(settings);
  const std::size_t of_client = needs.total(needs.least_credits);
  const std::size_t of_sources = memory_of_sources(settings.sources);
  // A source is a client too.
  if (limit < of_sources || limit - of_sources < of_client * (1 + settings.sources.size())) {
    throw configuration_error("field 'limits.memory': " + rounded(limit) + " is less than the " + rounded(of_client) +
                              " that " + (settings.sources.empty() ? "" : "each source and ") + "one client takes" +
                              (of_sources == 0 ? "" : " beside " + rounded(of_sources) + " of sources' queues") +
                              ": raise it, or lower clients.credit_requests, clients.reply_cache_bytes" +
                              (of_sources == 0 ? "" : ", the sources' queue") +
                              " or the largest request of a pipeline");
  }
}

std::size_t memory_of_sources(const std::vector<source_declaration>& sources) noexcept {
  std::size_t bytes = 0;
  for (const source_declaration& each : sources) {
    bytes += each.memory_bytes();
  }
  return bytes;
}

client_memory memory_of_clients(const settings& settings, std::size_t shards, std::size_t machine) {
  std::size_t slot = 0;
  for (const pipeline_declaration& pipeline : settings.pipelines) {
    slot = std::max(slot, slot_bytes(pipeline, settings.clients));
  }
  return {.limit = memory_limit(settings, machine),
          .slots = static_cast<std::size_t>(settings.stream_pool.slots) * slot,
          .recent = most_recent_replies * std::min(most_recent_reply_bytes, settings.clients.reply_cache_bytes),
          .control = most_waiting_control_bytes,
          .shards = shards,
          .sources = memory_of_sources(settings.sources)};
}

std::string text_of(const client_memory& memory) {
  return "peers can make it hold at most " + rounded(memory.total()) + ": " + rounded(memory.limit) +
         " of requests, replies" + (memory.sources == 0 ? "" : ", " + rounded(memory.sources) + " of sources' queues") +
         " and shared memory (limits.memory), and for each of " + std::to_string(memory.shards) +
         (memory.shards == 1 ? " shard" : " shards") + " about " + rounded(memory.slots) + " of slots, " +
         rounded(memory.recent) + " of replies that it keeps and " + rounded(memory.control) +
         " of control messages that wait";
}

}  // namespace penstock
