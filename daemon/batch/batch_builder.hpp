#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/batch/slot_ring.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/fair_queue.hpp"

namespace penstock {

/// What the stream pool can take now.
enum class stream_room : std::uint8_t {
  none,  ///< every stream has as many batches as it may
  some,  ///< every stream is busy, but one can queue another batch
  idle,  ///< a stream has nothing to do, or batches are short and the device has none of this pipeline
};

/// Builds the batches of one pipeline. Holds its waiting requests and its open batch, and decides when that closes.
/// Thread: the shard.
class batch_builder {
 public:
  /// `in_place_bytes`: payloads of at least this size stay in their message (device_facts).
  batch_builder(const plan& pipeline, std::size_t in_place_bytes);

  [[nodiscard]] const plan& pipeline() const noexcept { return pipeline_; }
  /// The streams that its batches run on.
  [[nodiscard]] stream_class streams() const noexcept { return pipeline_.streams(); }
  /// The builder with the smallest key is served first: the arrival time, minus 10 ms for each level above normal
  /// priority. So old work of low priority comes before new work of high priority, and no builder starves.
  [[nodiscard]] time_point turn_of(time_point received) const noexcept { return received - ahead_; }

  /// Decides how the request's payload reaches its operators.
  [[nodiscard]] payload_mode mode_of(const request& accepted, std::span<const std::byte> payload) const noexcept;
  /// Whether the request can join the open batch.
  [[nodiscard]] bool fits(const request& next) const noexcept;
  /// The close reason if the next request does not fit: `full` or `extent`.
  [[nodiscard]] close_reason reason_against(const request& next) const noexcept;
  /// Opens a batch in an empty slot; `first` will be its first request.
  void open(slot& empty, const request& first) noexcept;
  /// Adds a request that fits, and copies its payload if its mode is `copied`.
  void put(request& next, std::span<const std::byte> payload) noexcept;
  /// The slot of the open batch; nullptr if there is none.
  [[nodiscard]] slot* filling() const noexcept { return open_; }
  /// Whether the open batch closes now, and why:
  /// - `full`: it has max_frames, or its one payload stays in its message;
  /// - `idle`: see stream_room. So batches grow while the device is busy, and nothing waits while it is not;
  /// - `delay`: its oldest request has waited max_delay, and a stream has room to start the batch.
  /// The scheduler also closes it for a request that does not fit (`full`, `extent`), and in a drain (`drain`).
  [[nodiscard]] std::optional<close_reason> due(stream_room room, time_point now) const noexcept;
  /// When max_delay ends for the open batch; `never` if none is open.
  [[nodiscard]] time_point next_decision() const noexcept;
  /// Ends the open batch.
  [[nodiscard]] slot& close() noexcept;

  /// Tells the builder that a request got into a batch. `heavy`: its client is heavy; `held`: heavy clients were held
  /// back at that moment.
  void served(const request& next, bool heavy, bool held) noexcept;
  /// Whether heavy clients wait while the device is busy: a light client was served lately, and fewer than 8 light
  /// requests have gone first since the last heavy one.
  [[nodiscard]] bool holds_heavy() const noexcept { return light_lately_ != 0 && passed_over_ < most_passed_over; }

  fair_queue waiting;
  std::size_t launched = 0;  ///< batches of this pipeline on the device; written by the scheduler

 private:
  static constexpr std::uint32_t most_passed_over = 8;  // light requests before a heavy client gets a turn
  static constexpr std::uint32_t remembered = 64;       // heavy requests until light clients are forgotten

  const plan& pipeline_;
  std::size_t most_shared_;
  std::size_t in_place_bytes_;
  slot* open_ = nullptr;
  // The last client served of each kind. Only compared: it may be gone.
  const client_record* heavy_ = nullptr;
  const client_record* light_ = nullptr;
  std::uint32_t light_lately_ = 0;  // counts down from `remembered`; 0: no light client lately
  std::uint32_t passed_over_ = 0;   // light requests since the last heavy one, while heavy clients were held back
  std::chrono::nanoseconds ahead_;
};

}  // namespace penstock
