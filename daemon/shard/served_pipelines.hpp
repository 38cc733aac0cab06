#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/pipeline/plan.hpp"

namespace penstock {

/// The pipelines that a shard serves at a time, as clients know them. Thread: the shard.
struct served_pipelines {
  std::vector<const plan*> in_order;             ///< the configuration's
  std::vector<const plan*> by_id;                ///< nullptr for a number that is not, or no longer, in use
  std::map<std::uint32_t, std::string> removed;  ///< by number: what became of it

  /// nullptr when there is none of that number.
  [[nodiscard]] const plan* find(std::uint32_t id) const noexcept { return id < by_id.size() ? by_id[id] : nullptr; }
  void put(const plan& made) {
    if (by_id.size() <= made.id) {
      by_id.resize(made.id + 1);
    }
    by_id[made.id] = &made;
    removed.erase(made.id);
  }
  /// `why`: for clients that still ask for it.
  void remove(std::uint32_t id, std::string why) {
    by_id[id] = nullptr;
    removed[id] = std::move(why);
  }
  /// "" when that number was never in use, or is.
  [[nodiscard]] std::string why_removed(std::uint32_t id) const {
    const auto found = removed.find(id);
    return found == removed.end() ? "" : found->second;
  }
};

}  // namespace penstock
