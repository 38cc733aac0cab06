#include "daemon/admin/watchdog.hpp"

#include <cstddef>

#include <fmt/format.h>

namespace penstock {

std::string watchdog::complaint(const std::vector<shard_sign>& shards) const {
  for (std::size_t number = 0; number < shards.size(); ++number) {
    const shard_sign& each = shards[number];
    if (each.ended) {
      continue;
    }
    if (!each.pulse) {
      return fmt::format("shard {} does not answer", number);
    }
    if (each.pulse->standing_still > patience_) {
      return fmt::format("the device of shard {} has finished no batch for {} s", number,
                         std::chrono::duration_cast<std::chrono::seconds>(each.pulse->standing_still).count());
    }
  }
  return "";
}

}  // namespace penstock
