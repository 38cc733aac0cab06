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

/// What became of a source's samples. Always: expected = delivered + network + kernel + overrun + late + waiting.
struct sample_counts {
  std::uint64_t expected = 0;   ///< up to the newest one that was seen, in all streams and epochs
  std::uint64_t delivered = 0;  ///< handed to the pipeline
  std::uint64_t network = 0;    ///< lost before they came to this machine
  std::uint64_t kernel = 0;     ///< lost in the socket's buffer
  std::uint64_t overrun = 0;    ///< dropped because the pipeline took less than came
  std::uint64_t late = 0;       ///< came when their place had been given up
  std::uint64_t waiting = 0;    ///< in the queue, or in a block that is not full

  [[nodiscard]] bool balanced() const noexcept {
    return expected == delivered + network + kernel + overrun + late + waiting;
  }
  bool operator==(const sample_counts&) const = default;
};

/// What else happened to a source.
struct source_events {
  std::uint64_t filled = 0;      ///< samples that were filled in, gaps and ends of blocks
  std::uint64_t duplicates = 0;  ///< samples that had come before
  std::uint64_t restored = 0;    ///< samples that came before others, and were put in order
  std::uint64_t gaps = 0;
  std::uint64_t epochs = 0;           ///< beyond each stream's first
  std::uint64_t suspected = 0;        ///< times that samples may have been lost, nobody knows how many
  std::uint64_t malformed = 0;        ///< messages that could not be read
  std::uint64_t refused_streams = 0;  ///< messages of streams beyond max_streams
  std::uint64_t blocks = 0;           ///< requests that were sent
  std::uint64_t results = 0;          ///< requests that ended with a result
  std::uint64_t errors = 0;           ///< requests that ended without
  std::uint64_t stalls = 0;
  std::uint64_t connections = 0;  ///< times that its reader began, or began again

  bool operator==(const source_events&) const = default;
};

enum class source_state : std::uint8_t { starting, running, stalled, waiting, ended };

/// "starting", "running", "stalled" (no data for too long), "waiting" (to try again), "ended".
[[nodiscard]] std::string_view name_of(source_state state) noexcept;

/// A source at one moment. A value: any thread may keep it.
struct source_report {
  std::string name;
  std::string type;      ///< "zmq-sub"
  std::string pipeline;  ///< that it feeds
  std::uint32_t shard = 0;
  source_state state = source_state::starting;
  std::string trouble;  ///< why it waits or what is wrong with it; "" for nothing
  std::size_t streams = 0;
  sample_counts samples;
  source_events events;
  std::size_t queued_bytes = 0;
  std::size_t queue_bytes = 0;  ///< that may wait
};

[[nodiscard]] nlohmann::ordered_json json_of(const source_report& source);

/// What the sources of the daemon say of themselves, one after another: each writes its own place, and everybody reads
/// them all. Any thread.
class source_board {
 public:
  /// A source's place. It leaves the board when it is destroyed.
  class place {
   public:
    /// `stop` tells the source to end; any thread, and it neither blocks nor throws.
    place(source_board& board, source_report first, std::function<void()> stop = {});
    ~place();
    place(const place&) = delete;
    place& operator=(const place&) = delete;

    /// Its text allocates only where it differs.
    void write(const source_report& now);

   private:
    source_board& board_;
    std::function<void()> stop_;
    std::mutex mutex_;
    source_report report_;

    friend class source_board;
  };

  /// Those that feed that shard, in the order in which they began.
  [[nodiscard]] std::vector<source_report> read(std::uint32_t shard) const;
  /// That shard ends: its sources are told to end too.
  void stop(std::uint32_t shard) const;

 private:
  mutable std::mutex mutex_;
  std::vector<place*> places_;
};

}  // namespace penstock
