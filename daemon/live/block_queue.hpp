#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/live/sample_block.hpp"
#include "daemon/telemetry/source_board.hpp"

namespace penstock::live {

/// The memory of a source's blocks. The source's thread takes them; any thread gives them back, when a request's bytes
/// are not needed any more. It grows to the largest number in use. Held by everything that refers to a block.
class block_pool {
 public:
  explicit block_pool(std::size_t block_bytes) : block_bytes_(block_bytes) {}
  ~block_pool();
  block_pool(const block_pool&) = delete;
  block_pool& operator=(const block_pool&) = delete;

  /// nullptr: all of `most` are in use.
  [[nodiscard]] std::byte* take(std::size_t most);
  /// The source's thread.
  void give_back(std::byte* memory) noexcept;
  /// Any thread. Neither blocks nor allocates.
  void return_from_afar(std::byte* memory) noexcept;
  /// Takes what came back from afar, as `take` does; false when nothing did. The source's thread.
  [[nodiscard]] bool collect() noexcept;
  [[nodiscard]] std::size_t in_use() const noexcept { return made_.size() - free_.size(); }

 private:
  // Before each block's memory.
  struct alignas(64) header {
    header* next = nullptr;
  };

  [[nodiscard]] static header* header_of(std::byte* memory) noexcept;

  const std::size_t block_bytes_;
  std::vector<std::byte*> made_;
  std::vector<std::byte*> free_;
  // Pushed by any thread, taken as a whole by the source's.
  std::atomic<header*> returned_{nullptr};
};

/// The blocks of a source that wait for its pipeline, in the order in which they were full. Here the overrun policy
/// holds; what is dropped is a gap in front of the next block of its stream, and treated as the gap policy says.
/// Thread: the source's.
class block_queue final : public block_store {
 public:
  /// `wait` is called where the policy is to block and there is no memory; false: stop, there will be none. References
  /// outlive this.
  block_queue(const block_plan& plan, std::shared_ptr<block_pool> pool, sample_counts& counts, source_events& events,
              std::function<bool()> wait);
  ~block_queue() override;
  block_queue(const block_queue&) = delete;
  block_queue& operator=(const block_queue&) = delete;

  [[nodiscard]] std::byte* take() override;
  void put(const sample_block& block) override;
  void give_back(std::byte* memory) override { pool_->give_back(memory); }

  /// The block that is to be handed to the pipeline next; nullptr when none is there, or no memory to fill a gap with.
  [[nodiscard]] const sample_block* front();
  /// It was handed over, with its memory.
  void pop_delivered();
  /// It can't be handed over: its samples count as overrun, and it is a gap.
  void drop_front();
  /// From now on blocks of that stream are of a new epoch, beginning with the one in front, which is of that stream.
  void begin_epoch();

  [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return blocks_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return blocks_.size() * plan_.block_bytes(); }
  /// Of blocks that may be in use.
  [[nodiscard]] std::size_t most() const noexcept { return most_; }
  [[nodiscard]] bool full() noexcept;

 private:
  // What was dropped of a stream since its last block was handed over.
  struct dropped {
    std::uint64_t samples = 0;
    std::uint64_t lost_before = 0;
    std::uint8_t flags = 0;
    std::int64_t index = 0;  // of the first of them
    std::int64_t time_ns = 0;
    time_quality quality = time_quality::none;
  };

  [[nodiscard]] dropped& dropped_of(stream_number stream);
  [[nodiscard]] bool settle_front();

  const block_plan& plan_;
  std::shared_ptr<block_pool> pool_;
  sample_counts& counts_;
  source_events& events_;
  std::function<bool()> wait_;
  std::size_t most_;
  std::deque<sample_block> blocks_;
  std::vector<dropped> dropped_;            // by stream
  std::vector<std::uint32_t> more_epochs_;  // by stream: that began here
  bool settled_ = false;                    // the front's gap has been treated
};

}  // namespace penstock::live
