#include "daemon/admin/start_progress.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds long_step{1};

}  // namespace

start_progress::step::step(start_progress& of, std::uint32_t shard, std::string what) : of_(of), shard_(shard) {
  const std::lock_guard lock(of_.mutex_);
  of_.steps_[shard_] = {std::move(what), clock::now()};
}

start_progress::step::~step() {
  const std::lock_guard lock(of_.mutex_);
  const auto mine = of_.steps_.find(shard_);
  if (const auto time = clock::now() - mine->second.since; time > long_step) {
    spdlog::info("shard {}: {}: that took {:.1f} s", shard_, mine->second.what,
                 std::chrono::duration<double>(time).count());
  }
  of_.steps_.erase(mine);
}

std::optional<start_progress::longest> start_progress::slowest() const {
  const clock::time_point now = clock::now();
  const std::lock_guard lock(mutex_);
  std::optional<longest> found;
  for (const auto& [shard, each] : steps_) {
    if (!found || now - each.since > found->time) {
      found = {fmt::format("shard {}: {}", shard, each.what), now - each.since};
    }
  }
  return found;
}

}  // namespace penstock
