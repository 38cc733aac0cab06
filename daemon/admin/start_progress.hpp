#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace penstock {

/// What the shards of a daemon that starts are about. A step that took more than a second is logged when it ends; the
/// admin's thread tells people and the service manager while it goes on. Threads: any.
class start_progress {
 public:
  /// A step of a shard's start: from when it is made until it ends.
  class step {
   public:
    step(start_progress& of, std::uint32_t shard, std::string what);
    step(const step&) = delete;
    step& operator=(const step&) = delete;
    ~step();

   private:
    start_progress& of_;
    std::uint32_t shard_;
  };

  /// The step that has gone on for the longest.
  struct longest {
    std::string text;  ///< "shard 0: pipeline 'fine' is compiled"
    std::chrono::steady_clock::duration time{};
  };
  [[nodiscard]] std::optional<longest> slowest() const;

 private:
  struct entry {
    std::string what;
    std::chrono::steady_clock::time_point since;
  };

  mutable std::mutex mutex_;
  std::map<std::uint32_t, entry> steps_;  // by shard
};

}  // namespace penstock
