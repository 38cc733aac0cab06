#include "daemon/egress/recent_replies.hpp"

namespace penstock {

recent_replies::recent_replies() : entries_(places) {
  // Whichever place is taken when, none asks for memory. The usual reply has a header and one output.
  constexpr std::size_t usual_parts = 4;
  for (entry& each : entries_) {
    each.parts.reserve(usual_parts);
  }
}

// Fibonacci hashing (Knuth, TAOCP 3, 6.4): of ids that count up, hundreds pass before one takes another's place.
recent_replies::entry& recent_replies::place_of(std::uint32_t client, std::uint64_t id) noexcept {
  constexpr std::uint64_t step = 0x9E3779B97F4A7C15ULL;
  constexpr std::uint64_t apart = 0xC2B2AE3D27D4EB4FULL;
  return entries_[(id * step + client * apart) >> (64U - place_bits)];
}

void recent_replies::keep(std::uint32_t client, std::uint64_t id, reply_parts& parts) {
  entry& kept = place_of(client, id);
  kept.id = id;
  kept.client = client;
  share(parts, kept.parts);
}

void recent_replies::find(std::uint32_t client, std::uint64_t id, reply_parts& found) {
  entry& kept = place_of(client, id);
  found.clear();
  if (kept.is(client, id)) {
    share(kept.parts, found);
  }
}

void recent_replies::remove(std::uint32_t client, std::uint64_t id) noexcept {
  if (entry& kept = place_of(client, id); kept.is(client, id)) {
    kept.parts.clear();
  }
}

void recent_replies::forget(std::uint32_t client) noexcept {
  for (entry& each : entries_) {
    if (each.client == client) {
      each.parts.clear();
    }
  }
}

}  // namespace penstock
