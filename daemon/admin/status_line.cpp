#include "daemon/admin/status_line.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace penstock {
namespace {

// 15234 → "15 234"
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t digits = 3; digits < text.size(); digits += 4) {
    text.insert(text.size() - digits, 1, ' ');
  }
  return text;
}

std::string counted(std::uint64_t number, std::string_view what) {
  return fmt::format("{} {}{}", grouped(number), what, number == 1 ? "" : "s");
}

}  // namespace

std::string status_line::write(time_point now, const std::vector<shard_sign>& shards, bool draining) {
  known_.resize(shards.size());
  std::uint64_t results = 0;
  std::size_t silent = 0;
  shard_pulse all;
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (const std::optional<shard_pulse>& pulse = shards[number].pulse) {
      results += pulse->results - known_[number].results;
      known_[number] = *pulse;
    } else if (shards[number].ended) {
      known_[number].in_flight = 0;
    } else {
      ++silent;
    }
    all.in_flight += known_[number].in_flight;
    all.clients += known_[number].clients;
    all.pipelines = std::max(all.pipelines, known_[number].pipelines);
  }
  const double seconds = std::chrono::duration<double>(now - std::exchange(then_, now)).count();
  const auto rate = seconds > 0 ? std::llround(static_cast<double>(results) / seconds) : 0;
  const std::string silence = silent == 0 ? "" : fmt::format(" ({} of them silent)", silent);
  if (draining) {
    return fmt::format("draining: {} in flight, {}{}", counted(all.in_flight, "request"),
                       counted(shards.size(), "shard"), silence);
  }
  return fmt::format("serving {}: {} results/s, {}, {}{}", counted(all.pipelines, "pipeline"),
                     grouped(static_cast<std::uint64_t>(rate)), counted(all.clients, "client"),
                     counted(shards.size(), "shard"), silence);
}

}  // namespace penstock
