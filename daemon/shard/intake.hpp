#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "daemon/batcher/batcher.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/fair_queue.hpp"
#include "daemon/ring/ring.hpp"

namespace penstock {

/// One pipeline's way into slots: the requests that wait, and the open slot that is being filled. Thread: the shard.
class intake {
 public:
  /// `in_place_bytes`: from how many on a payload stays where it is (device_facts).
  intake(const plan& of, std::size_t in_place_bytes);

  [[nodiscard]] const plan& pipeline() const noexcept { return what_; }
  [[nodiscard]] stream_priority priority() const noexcept { return what_.declaration.priority; }
  /// When work that came at that time counts as having come: a higher priority is ahead by a fixed time for each level.
  /// What has waited longer than that still comes first, so that an intake with endless work never starves another.
  [[nodiscard]] time_point turn_of(time_point received) const noexcept { return received - ahead_; }

  /// Whether the payload stays where it is, and the request is a batch of its own.
  [[nodiscard]] bool in_place(const request& what, std::span<const std::byte> payload) const noexcept;
  /// Whether `what` gets into the open slot as well.
  [[nodiscard]] bool fits(const request& what, std::span<const std::byte> payload) const noexcept;
  /// Why the open slot has to be closed before `what` gets into one.
  [[nodiscard]] close_reason reason_against(const request& what) const noexcept;
  /// Takes an empty slot to be filled, `first` being the first that comes into it.
  void open(slot& empty, const request& first) noexcept;
  /// Copies the payload into the open slot, behind what is there, unless it lies in shared memory or is `in_place`.
  /// `what` fits.
  void put(request& what, std::span<const std::byte> payload) noexcept;
  /// The open slot leaves the intake.
  [[nodiscard]] slot& close() noexcept;
  /// What the batcher looks at.
  [[nodiscard]] batch_fill fill() const noexcept;

  [[nodiscard]] slot* filling() const noexcept { return open_; }

  /// That request got its place. `heavy`: its client was; `held`: while heavy clients were held back.
  void served(const request& what, bool heavy, bool held) noexcept;
  /// Whether heavy clients are to be held back while the device is busy: others send as well, and not too many of
  /// theirs have gone before since the last heavy one.
  [[nodiscard]] bool holds_heavy() const noexcept { return light_lately_ != 0 && passed_over_ < most_passed_over; }

  fair_queue waiting;
  std::size_t launched = 0;  ///< the dispatcher's: batches with the device

 private:
  // However many light ones there are, a heavy one gets a turn after so many.
  static constexpr std::uint32_t most_passed_over = 8;
  static constexpr std::uint32_t remembered = 64;

  const plan& what_;
  std::size_t most_shared_;
  std::size_t in_place_bytes_;
  slot* open_ = nullptr;
  // The last of each kind; only compared, they may have gone.
  const client_record* heavy_ = nullptr;
  const client_record* light_ = nullptr;
  std::uint32_t light_lately_ = 0;  // requests until light clients are forgotten
  std::uint32_t passed_over_ = 0;   // light ones since the last heavy one, while those were held back
  std::chrono::nanoseconds ahead_;
};

}  // namespace penstock
