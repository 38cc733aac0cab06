#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "proto/message.hpp"

namespace penstock {

class client_arena;
class client_record;
struct plan;
struct session_record;
struct slot;

/// The numbers of the tuned stages of a plan for one frame: stage_declaration::numbers of each, side by side.
using tuned_numbers = std::shared_ptr<const std::vector<double>>;

using time_point = std::chrono::steady_clock::time_point;
inline constexpr time_point never = time_point::max();

/// The states of an accepted request, in their order.
enum class request_step : std::uint8_t {
  queued,     ///< waits for a slot
  batched,    ///< in a slot
  executing,  ///< with the device
  held,       ///< done; waits for earlier results of its session
  answered,
};

/// Where a request's payload is when the device reads it. Decided once, when the scheduler takes the request.
enum class payload_mode : std::uint8_t {
  copied,     ///< in the pinned input of its slot, copied there from the message
  in_place,   ///< in the message, where libzmq received it; the request is a batch of its own
  rewritten,  ///< as in_place, and the result is written over it (plan::rewrites_input)
  shared,     ///< in memory that the client shares; the device copies it from there
};

/// True if the operators work in the received message itself.
[[nodiscard]] constexpr bool stays_in_message(payload_mode mode) noexcept {
  return mode == payload_mode::in_place || mode == payload_mode::rewritten;
}

/// Input and outputs of a request in memory that its client shares.
struct shared_frames {
  client_arena* arena = nullptr;  ///< the request holds a reference; nullptr: its frames came in a message
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool held = false;              ///< the client got an ERROR that says that the memory is still in use
  std::uint32_t incarnation = 0;  ///< of its client
};

/// One accepted SUBMIT or SUBMIT_SHARED.
///
/// Owner: the shard's request_pool. A request can outlive its reply: one that ends early while the device works on it,
/// or while its frames must still update its session's state, is `answered`, and the completion of its batch releases
/// it. It never moves; queues and heaps hold its address.
struct request {
  client_record* client = nullptr;
  const plan* pipeline = nullptr;
  std::uint64_t id = 0;
  session_record* session = nullptr;
  std::uint64_t sequence = 0;     ///< frames of its session before it
  std::int64_t steps_before = 0;  ///< steps of the pipeline's input before it in its session
  std::array<std::byte, 16> trace_id{};
  std::optional<wire::sample_account> account{};  ///< that its sender gave it
  std::uint32_t filled_earlier =
      0;                          ///< samples of earlier requests that its outputs reach back to, and that are filled
  bool withheld_earlier = false;  ///< of one of these requests
  tuned_numbers numbers{};        ///< that hold for its frames; nullptr if its pipeline is not tuned
  std::uint32_t frames = 0;
  std::int64_t leading = 0;  ///< leading dimension of its frames
  std::size_t bytes = 0;     ///< of the payload
  payload_mode payload = payload_mode::copied;
  shared_frames shared;  ///< of payload_mode::shared
  time_point received;
  time_point deadline = never;
  request_step step = request_step::queued;
  slot* home = nullptr;                 ///< from `batched` on
  std::int64_t first_frame = 0;         ///< of its batch
  std::size_t heap_position = 0;        ///< for deadline_heap
  request* previous = nullptr;          ///< in its client's queue
  request* next = nullptr;              ///< in its client's queue, in reply order, or in the pool's free list
  request* session_previous = nullptr;  ///< among the unanswered requests of its session
  request* session_next = nullptr;
  bool abandoned = false;   ///< answered while queued; its frames must still update its session's state
  std::uint32_t index = 0;  ///< in the pool; payload_store keeps its message under it

  /// Bytes of its client's credits that it uses: none in shared memory.
  [[nodiscard]] std::size_t credit_bytes() const noexcept { return payload == payload_mode::shared ? 0 : bytes; }
};

/// Number of requests in flight for which memory is reserved at the start.
inline constexpr std::size_t usual_requests = 256;

/// The requests of a shard. The pool never shrinks, so it allocates only when more requests are in flight than ever
/// before; credits bound it. Thread: the shard.
class request_pool {
 public:
  request_pool();
  [[nodiscard]] request& claim();
  void release(request& done) noexcept;
  /// Requests that were ever made; every index is below this.
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

 private:
  request& make();

  std::deque<request> all_;
  request* free_ = nullptr;
};

/// Requests that wait for a slot, oldest first. Intrusive; never allocates. Thread: the shard.
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

/// Requests with a deadline: a binary heap, the earliest on top. Each request knows its position, so removing one is
/// O(log n). Thread: the shard.
class deadline_heap {
 public:
  deadline_heap() { heap_.reserve(usual_requests); }
  /// `never` if it is empty.
  [[nodiscard]] time_point earliest() const noexcept { return heap_.empty() ? never : heap_.front()->deadline; }
  /// A request whose deadline has passed, or nullptr.
  [[nodiscard]] request* due(time_point now) const noexcept {
    return earliest() <= now && !heap_.empty() ? heap_.front() : nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }
  void push(request& timed);
  void remove(request& any) noexcept;

 private:
  void rise(std::size_t position) noexcept;
  void sink(std::size_t position) noexcept;
  void place(std::size_t position, request& moved) noexcept;

  std::vector<request*> heap_;
};

}  // namespace penstock
