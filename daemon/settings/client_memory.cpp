#include "daemon/settings/client_memory.hpp"

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

struct pipeline_sizes {
  std::size_t request = 0;  // the largest request's payload
  std::size_t reply = 0;    // the largest reply, with its headers
  bool keeps_state = false;
};

pipeline_sizes sizes_of(const pipeline_declaration& pipeline, std::size_t max_request_bytes) {
  const std::size_t frame = std::max<std::size_t>(pipeline.input.bytes(), 1);
  const std::size_t frames =
      std::max<std::size_t>(std::min(static_cast<std::size_t>(pipeline.batch.max_frames),
                                     std::min(pipeline.batch.max_bytes, max_request_bytes) / frame),
                            1);
  pipeline_sizes sizes{.request = frames * frame, .reply = wire::part_bytes(pipeline.outputs.size())};
  for (const stage_declaration& stage : pipeline.stages) {
    const bool given_back = std::count(pipeline.outputs.begin(), pipeline.outputs.end(), stage.name) != 0;
    sizes.reply += given_back ? frames * stage.output.bytes() : 0;
    sizes.keeps_state |= stage.session.has_value();
  }
  return sizes;
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

int replies_under_way(const client_settings& of) noexcept {
  return 2 * static_cast<int>(std::min<std::uint32_t>(of.credit_requests, 1U << 20U)) + 64;
}

client_memory memory_of_clients(const settings& what, std::size_t shards) {
  pipeline_sizes most{.reply = wire::header_bytes + wire::max_body_bytes};
  std::size_t slot = 0;
  for (const pipeline_declaration& pipeline : what.pipelines) {
    const pipeline_sizes sizes = sizes_of(pipeline, what.clients.max_request_bytes);
    slot = std::max(slot, sizes.request + sizes.reply);
    most.reply = std::max(most.reply, sizes.reply);
    most.keeps_state |= sizes.keeps_state;
  }
  // Requests that ended early and still go through their sessions: check_abandoned lets them reach twice the credits.
  const std::size_t windows = most.keeps_state ? 3 : 1;
  const std::size_t kept_beside = what.clients.credit_requests * receive_bytes;
  return {.requests = windows * (what.clients.credit_bytes + kept_beside),
          .replies = static_cast<std::size_t>(replies_under_way(what.clients)) * most.reply +
                     what.clients.reply_queue_bytes + what.clients.reply_cache_bytes,
          .slots = static_cast<std::size_t>(what.wheel.slots) * slot,
          .recent = most_recent_replies * std::min(most_recent_reply_bytes, what.clients.reply_cache_bytes),
          .clients = what.clients.max_clients,
          .shards = shards,
          .shared = what.shared_memory.max_bytes};
}

std::string text_of(const client_memory& what) {
  return "clients can make it hold at most " + rounded(what.total()) + ": " + std::to_string(what.shards) +
         (what.shards == 1 ? " shard" : " shards") + " of " + std::to_string(what.clients) + " clients, each " +
         rounded(what.requests) + " of requests and " + rounded(what.replies) +
         " of replies that it does not read, and about " + rounded(what.slots) + " of slots and " +
         rounded(what.recent) + " of replies that it keeps" +
         (what.shared != 0 ? ", and " + rounded(what.shared) + " that they share with it" : "");
}

}  // namespace penstock
