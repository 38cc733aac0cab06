#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/batch/batch_builder.hpp"
#include "daemon/batch/completion_queue.hpp"
#include "daemon/batch/slot_ring.hpp"
#include "daemon/exec/result_order.hpp"
#include "daemon/exec/stream_pool.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/payload_store.hpp"
#include "daemon/request/request_tracker.hpp"
#include "daemon/telemetry/recorder.hpp"

namespace penstock {

/// The loss of the device: its error, and the stage or pipeline at which it was seen, if known.
struct device_loss {
  std::string error;
  std::string stage{};
  std::string pipeline{};
  /// Pipelines with users' code that the device had batches of, the oldest batch first; of a hang, of batches that are
  /// overdue.
  std::vector<std::string> suspects{};
};

/// This many refused calls within this time count as the loss of the device.
inline constexpr std::size_t refusals_of_a_loss = 3;
inline constexpr std::chrono::seconds refusals_count_for{10};

/// What became of a request that was submitted.
enum class submit_outcome : std::uint8_t {
  batched,           ///< in a batch; its payload was copied or is in shared memory
  batched_in_place,  ///< in a batch that reads the payload from its message, which must be kept
  queued,            ///< waits for a slot; its message must be kept
};

/// Moves requests from the queues into slots, closed batches onto streams, and completed batches to their replies. If
/// slots or streams are short, the order is that of batch_builder::turn_of.
///
/// If the device refuses a batch, its requests are answered FAILED, its sessions are lost if they have state, and its
/// slot stays with the device until everything that was enqueued is done. Thread: the shard.
class scheduler {
 public:
  scheduler(std::span<const plan> plans, slot_ring& slots, stream_pool& streams, completion_queue& completed,
            request_tracker& tracker, payload_store& payloads, recorder& recorder);

  /// Adds a plan of a reload; its plan::place is the next.
  void add(const plan& later);
  /// Whether the plan has no waiting request and no batch. For plans that get no more requests.
  [[nodiscard]] bool done_with(const plan& pipeline) const noexcept;
  /// Removes a plan that the scheduler is `done_with` and that nothing else refers to.
  void remove(const plan& pipeline) noexcept;

  /// Decides the request's payload mode, and puts it into a batch or into its queue. Unless the outcome is `batched`,
  /// the caller must keep the message in the payload store.
  [[nodiscard]] submit_outcome submit(request& accepted, std::span<const std::byte> payload);
  /// Takes completions, fills slots from the queues, closes batches that are due and launches them. Returns whether
  /// anything happened.
  bool turn(time_point now);
  /// Answers a request with an error, at any step. Work on the device is not stopped. A queued request of a pipeline
  /// that keeps state still runs, to update its session's state.
  void end(request& early, wire::status code, const std::string& reason);
  /// The client's oldest queued request in that pipeline, or nullptr.
  [[nodiscard]] request* oldest_queued(const client_record& client, const plan& pipeline) const noexcept;

  /// Answers every queued request SHUTDOWN; from now on every open batch closes at once.
  void drain();
  /// Answers every request with this error. Nothing is launched afterwards.
  void end_all(wire::status code, const wire::error_body& why);
  /// Set once, when the device has failed or hangs.
  [[nodiscard]] const std::optional<device_loss>& lost() const noexcept { return lost_; }
  /// Checks whether the device is lost: it reports a fault, it has batches and has finished none for `patience`, or one
  /// batch has taken ten times `patience` (a batch of low priority may wait for others that long).
  void check_device(time_point now, std::chrono::nanoseconds patience);
  [[nodiscard]] bool idle() const noexcept { return streams_.in_flight() == 0 && filling_.empty() && ready_.empty(); }
  [[nodiscard]] std::uint64_t batches_done() const noexcept { return batches_done_; }
  /// When the last batch completed; the clock's epoch if none did.
  [[nodiscard]] time_point last_done() const noexcept { return last_done_; }
  /// How long the device has had work without finishing a batch; 0 while it has none.
  [[nodiscard]] std::chrono::nanoseconds standing_still(time_point now) const noexcept;
  /// When the next turn is due if nothing arrives: at the end of a max_delay. `never` if no batch is open.
  [[nodiscard]] time_point next_decision() const noexcept;

 private:
  // A candidate of `feed`: a batch builder with waiting requests.
  struct waiting_builder {
    batch_builder* builder = nullptr;
    request* first = nullptr;  // its next request; nullptr if its clients are held back
    bool held = false;         // heavy clients are held back
    time_point turn = never;
  };

  [[nodiscard]] batch_builder& builder_of(const slot& filled) const noexcept {
    return *builders_[filled.work.pipeline->place];
  }
  [[nodiscard]] bool place(batch_builder& builder, request& next, std::span<const std::byte> payload);
  [[nodiscard]] stream_room room_for(const batch_builder& builder) const noexcept;
  bool poll();
  bool complete();
  void finish(slot& done);
  bool feed();
  void look(waiting_builder& candidate) noexcept;
  [[nodiscard]] waiting_builder* next_to_feed() noexcept;
  [[nodiscard]] bool holds_heavy(const batch_builder& builder) const noexcept;
  bool close_due();
  [[nodiscard]] batch_builder* next_to_close(close_reason& why) noexcept;
  void close(batch_builder& builder, close_reason why);
  bool launch_ready();
  [[nodiscard]] std::size_t next_to_launch() const noexcept;
  void launch(slot& next);
  void fence(slot& refused, launch_fault why);
  void fail(slot& refused, const launch_fault& why);
  void lose_session_behind(const request& refused, const launch_fault& why);
  [[nodiscard]] bool lost_by(const launch_fault& why);
  void lose(device_loss loss, std::vector<const slot*> batches);
  void empty_queues(wire::status code, const wire::error_body& why);
  void end_batch(slot& slot, wire::status code, const wire::error_body& why);
  void end_launched(slot& slot, wire::status code, const wire::error_body& why);

  std::vector<std::unique_ptr<batch_builder>> builders_;  // by plan::place; nullptr if it was removed
  std::vector<batch_builder*> active_;                    // those that are not removed
  std::vector<batch_builder*> filling_;                   // those with an open slot
  slot_ring& ring_;
  stream_pool& streams_;
  completion_queue& completed_;
  request_tracker& tracker_;
  payload_store& payloads_;
  recorder& recorder_;
  result_order order_{tracker_, recorder_, payloads_};
  std::vector<slot*> ready_;     // closed, waiting for a stream; in the order in which they were closed
  std::vector<slot*> launched_;  // with the device, in no order
  std::vector<waiting_builder> waiting_builders_;
  time_point now_{};  // of the turn; advanced by each batch that ran inline
  time_point last_done_{};
  std::uint64_t batches_done_ = 0;
  bool draining_ = false;
  bool ended_ = false;
  std::optional<device_loss> lost_;
  std::array<time_point, refusals_of_a_loss> refused_at_{};  // a ring of the last ones
  std::uint64_t refusals_ = 0;
};

}  // namespace penstock
