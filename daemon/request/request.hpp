#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace penstock {

class client_arena;
class client_record;
struct plan;
struct session_record;
struct slot;

using time_point = std::chrono::steady_clock::time_point;
inline constexpr time_point never = time_point::max();

/// Where an accepted request stands. The order is the order of its life.
enum class request_step : std::uint8_t {
  queued,
  batched,
  executing,
  held,  ///< its result is there, those of its session before it are not
  answered,
};

/// Where a request's frames lie in memory that its client shares, and where its outputs go.
struct shared_frames {
  client_arena* arena = nullptr;  ///< which the request keeps in being; nullptr: its frames came in a message
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool held = false;              ///< its client was told, with an ERROR, that the memory is still in use
  std::uint32_t incarnation = 0;  ///< of its client
};

/// One accepted SUBMIT or SUBMIT_SHARED, from its admission until nothing refers to it any more.
///
/// Owner: the shard's request_pool. It lives longer than its reply when it expires while the device works on it:
/// `step` is then `answered`, and the completion of its batch frees it. The same holds for one of a session with state
/// that ends while it waits: the state still has to see its frames. Never moves: queues and heaps hold its address.
struct request {
  client_record* client = nullptr;
  const plan* pipeline = nullptr;
  std::uint64_t id = 0;
  session_record* session = nullptr;
  std::uint64_t sequence = 0;     ///< frames of its session before it
  std::int64_t steps_before = 0;  ///< steps of the pipeline's input that its session had before it
  std::array<std::byte, 16> trace_id{};
  std::uint32_t frames = 0;
  std::int64_t leading = 0;
  std::size_t bytes = 0;  ///< of the payload
  shared_frames shared;
  time_point received;
  time_point deadline = never;
  request_step step = request_step::queued;
  slot* home = nullptr;                 ///< once batched
  std::int64_t first_frame = 0;         ///< of its batch
  std::size_t heap_position = 0;        ///< deadline_heap's
  request* previous = nullptr;          ///< in its client's queue
  request* next = nullptr;              ///< there, in the order of its batch's replies, or in the pool's free list
  request* session_previous = nullptr;  ///< among the unanswered ones of its session
  request* session_next = nullptr;
  bool abandoned = false;   ///< answered while it was queued, and still to go through its session's state
  std::uint32_t index = 0;  ///< its place in the pool: where ingress keeps its payload

  /// What it costs in credits: nothing, where the payload lies in shared memory.
  [[nodiscard]] std::size_t credit_bytes() const noexcept { return shared.arena == nullptr ? bytes : 0; }
};

/// So many in flight at once are provided for from the start.
inline constexpr std::size_t usual_requests = 256;

/// The requests of a shard. Beyond the usual ones it grows by blocks up to what credits allow and never shrinks;
/// nothing is allocated once the most requests that were ever in flight have been there. Thread: the shard.
class request_pool {
 public:
  request_pool();
  [[nodiscard]] request& claim();
  void release(request& done) noexcept;
  /// How many requests have ever been made: indices are below it.
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

 private:
  request& make();

  std::deque<request> all_;
  request* free_ = nullptr;
};

/// Requests that wait for a slot, oldest first. Intrusive: nothing is allocated. Thread: the shard.
class request_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] request* first() const noexcept { return first_; }
  void push(request& last) noexcept;
  void remove(request& any) noexcept;

 private:
  request* first_ = nullptr;
  request* last_ = nullptr;
  std::size_t size_ = 0;
};

/// Requests with a deadline, the earliest on top. A binary heap whose members know their place. Thread: the shard.
class deadline_heap {
 public:
  deadline_heap() { heap_.reserve(usual_requests); }
  /// `never` when it is empty.
  [[nodiscard]] time_point earliest() const noexcept { return heap_.empty() ? never : heap_.front()->deadline; }
  /// The request whose deadline is due, nullptr when none is.
  [[nodiscard]] request* due(time_point now) const noexcept {
    return earliest() <= now && !heap_.empty() ? heap_.front() : nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }
  void push(request& with_deadline);
  void remove(request& any) noexcept;

 private:
  void rise(std::size_t at) noexcept;
  void sink(std::size_t at) noexcept;
  void place(std::size_t at, request& what) noexcept;

  std::vector<request*> heap_;
};

}  // namespace penstock
