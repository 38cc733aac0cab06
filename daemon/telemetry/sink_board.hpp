#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock {

/// What became of the results that a sink is for. Always: expected = delivered + dropped + waiting.
struct sink_counts {
  std::uint64_t expected = 0;   ///< that the shards had
  std::uint64_t delivered = 0;  ///< handed on whole
  std::uint64_t dropped = 0;    ///< in the daemon, in the queue, or by a receiver that has no room
  std::uint64_t waiting = 0;    ///< in the queue

  [[nodiscard]] bool balanced() const noexcept { return expected == delivered + dropped + waiting; }
  bool operator==(const sink_counts&) const = default;
};

enum class sink_state : std::uint8_t { starting, running, full, waiting, ended };

/// "starting", "running", "full" (the receiver takes nothing), "waiting" (to try again), "ended".
[[nodiscard]] std::string_view name_of(sink_state state) noexcept;

/// A sink at one moment. A value: any thread may keep it.
struct sink_report {
  std::string name;
  std::string type;  ///< "zmq-pub"
  sink_state state = sink_state::starting;
  std::string trouble;  ///< why it waits; "" for nothing
  sink_counts results;
  std::uint64_t bytes = 0;        ///< of results that were handed on
  std::uint64_t pauses = 0;       ///< times that it paused its sources
  std::uint64_t connections = 0;  ///< times that its writer began, or began again
  std::size_t queued_bytes = 0;
  std::size_t queue_bytes = 0;  ///< that may wait
};

[[nodiscard]] nlohmann::ordered_json json_of(const sink_report& sink);

/// What the sinks of the daemon say of themselves: each writes its own place, and everybody reads them all. Any thread.
class sink_board {
 public:
  /// A sink's place. It leaves the board when it is destroyed.
  class place {
   public:
    /// `leave` tells the sink to leave a shard, which ends; any thread, and it neither blocks nor throws.
    place(sink_board& board, sink_report first, std::function<void(std::uint32_t shard)> leave = {});
    ~place();
    place(const place&) = delete;
    place& operator=(const place&) = delete;

    void write(const sink_report& now);

   private:
    sink_board& board_;
    std::function<void(std::uint32_t shard)> leave_;
    std::mutex mutex_;
    sink_report report_;

    friend class sink_board;
  };

  /// In the order in which they began.
  [[nodiscard]] std::vector<sink_report> read() const;
  /// That shard ends: the sinks leave it.
  void leave(std::uint32_t shard) const;

 private:
  mutable std::mutex mutex_;
  std::vector<place*> places_;
};

}  // namespace penstock
