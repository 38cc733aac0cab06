#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/completion/completion.hpp"
#include "daemon/ingress/payload_store.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/ledger.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/shard/intake.hpp"
#include "daemon/shard/result_order.hpp"
#include "daemon/timeline/recorder.hpp"
#include "daemon/wheel/wheel.hpp"

namespace penstock {

/// The device failed: what it said, and the stage or at least the pipeline that it came up at, where that is known.
struct device_loss {
  std::string error;
  std::string stage{};
  std::string pipeline{};
};

/// The device may refuse so many calls less one within this time: the last of them is taken for its loss.
inline constexpr std::size_t refusals_of_a_loss = 3;
inline constexpr std::chrono::seconds refusals_count_for{10};

/// Brings accepted requests through the middle of the path: into slots, as batches onto the wheel, and from their
/// completion to their reply. A batch that the device refuses is answered FAILED, its sessions are lost where they have
/// state, and its slot stays with the device until what was enqueued is done. Thread: the shard.
class dispatcher {
 public:
  dispatcher(std::span<const plan> plans, ring& slots, wheel& streams, completion_queue& completed, ledger& book,
             payload_store& payloads, recorder& timeline);

  /// A plan that comes later; its place is the next.
  void add(const plan& later);
  /// Whether a plan that gets no more requests has none waiting and no batch any more.
  [[nodiscard]] bool done_with(const plan& which) const noexcept;
  /// `done_with` it, and nothing else refers to it.
  void remove(const plan& which) noexcept;

  /// Copies the payload into a slot if the request's turn is now. Returns false when it did not, because the request
  /// has to wait or the payload is to stay where it is: it must then be parked.
  [[nodiscard]] bool submit(request& accepted, std::span<const std::byte> payload);
  /// Takes completions, fills slots from the queues, closes and launches what the batcher says.
  /// Returns whether anything happened.
  bool turn(time_point now);
  /// Ends a request before its result, at whatever step it is. The device's work on it goes on unseen; so does its
  /// session's state, where its pipeline keeps one.
  void end(request& early, wire::status code, const std::string& reason);
  /// The oldest request of that client that still waits for a slot, nullptr when there is none.
  [[nodiscard]] request* oldest_queued(const client_record& of, const plan& pipeline) const noexcept;

  /// From here on batches close without waiting for company, and every queued request is answered SHUTDOWN.
  void drain();
  /// Answers everything in flight; nothing is launched any more.
  void end_all(wire::status code, const wire::error_body& why);
  /// Set once: the device has failed or hangs.
  [[nodiscard]] const std::optional<device_loss>& lost() const noexcept { return lost_; }
  /// Marks the device lost when it says that it has failed, which may happen without a batch; when it has a batch and
  /// has finished none for `patience`, or has one for ten times as long: work of low priority may have to wait while
  /// others are done.
  void check_device(time_point now, std::chrono::nanoseconds patience);
  [[nodiscard]] bool idle() const noexcept { return streams_.in_flight() == 0 && filling_.empty() && ready_.empty(); }
  [[nodiscard]] std::uint64_t batches_done() const noexcept { return batches_done_; }
  /// When the last batch was done; the clock's beginning when none was.
  [[nodiscard]] time_point last_done() const noexcept { return last_done_; }
  /// How long the device has had a batch without finishing any; 0 while it has none.
  [[nodiscard]] std::chrono::nanoseconds standing_still(time_point now) const noexcept;
  /// When to take a turn although nothing has come in: a batch's max_delay. `never` when nothing is open.
  [[nodiscard]] time_point next_decision() const noexcept;

 private:
  /// An intake whose requests wait, as `feed` looks at it.
  struct hungry_intake {
    intake* which = nullptr;
    request* first = nullptr;  // whose turn it is; nullptr when its clients are held back
    bool held = false;         // heavy clients are
    time_point turn = never;
  };

  [[nodiscard]] intake& intake_of(const slot& filled) noexcept { return *intakes_[filled.work.pipeline->place]; }
  [[nodiscard]] bool place(intake& in, request& what, std::span<const std::byte> payload);
  [[nodiscard]] wheel_room room_for(const intake& of) const noexcept;
  bool poll();
  bool complete();
  void finish(slot& done);
  bool feed();
  void look(hungry_intake& at) noexcept;
  [[nodiscard]] hungry_intake* next_to_feed() noexcept;
  [[nodiscard]] bool holds_heavy(const intake& of) const noexcept;
  bool close_due();
  [[nodiscard]] intake* next_to_close(close_reason& why) noexcept;
  void close(intake& in, close_reason why);
  bool launch_ready();
  [[nodiscard]] std::size_t next_to_launch() noexcept;
  void launch(slot& next);
  void fence(slot& refused, launch_fault why);
  void fail(slot& refused, const launch_fault& why);
  void lose_session_behind(const request& refused, const launch_fault& why);
  [[nodiscard]] bool lost_by(const launch_fault& why);
  void empty_queues(wire::status code, const wire::error_body& why);
  void end_batch(slot& of, wire::status code, const wire::error_body& why);
  void end_launched(slot& of, wire::status code, const wire::error_body& why);

  std::vector<std::unique_ptr<intake>> intakes_;  // by the place of the plan; none where it was removed
  std::vector<intake*> active_;                   // those that there are
  std::vector<intake*> filling_;                  // those of them that have an open slot
  ring& ring_;
  wheel& streams_;
  completion_queue& completed_;
  ledger& book_;
  payload_store& payloads_;
  recorder& timeline_;
  result_order order_{book_, timeline_, payloads_};
  std::vector<slot*> ready_;     // closed, waiting for a stream; in the order in which they were closed
  std::vector<slot*> launched_;  // with the device, in no order
  std::vector<hungry_intake> hungry_;
  time_point now_{};  // of the turn, which goes on with each batch that the wheel has run in it
  time_point last_done_{};
  std::uint64_t batches_done_ = 0;
  bool draining_ = false;
  bool ended_ = false;
  std::optional<device_loss> lost_;
  std::array<time_point, refusals_of_a_loss> refused_at_{};  // the last ones, in turn
  std::uint64_t refusals_ = 0;
};

}  // namespace penstock
