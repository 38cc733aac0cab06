#pragma once

#include <cstdint>

namespace penstock {

/// Where the time of a sample comes from.
enum class time_quality : std::uint8_t {
  none,         ///< there is none
  arrival,      ///< of its arrival
  estimated,    ///< counted from an earlier one by the sample rate
  source,       ///< the source said it
  disciplined,  ///< the source said it, from a clock that follows a reference
};

/// Which samples of its sender's clock a request has. The result repeats it, and says for each output where it stands
/// in that clock (tensor_view::index).
struct sample_account {
  static constexpr std::uint8_t index_known = 1;
  static constexpr std::uint8_t has_filled = 2;
  static constexpr std::uint8_t loss_suspected = 4;
  static constexpr std::uint8_t restored = 8;  ///< the order of packets was restored
  static constexpr std::uint8_t epoch_begins = 16;
  static constexpr std::uint8_t withheld = 32;  ///< the result is for its sender alone, not for subscribers

  std::int64_t index = 0;         ///< of the request's first sample; 0 without index_known
  std::int64_t time_ns = 0;       ///< of that sample, since 1970, UTC
  std::uint64_t lost_before = 0;  ///< samples known to be lost directly before it
  std::uint32_t epoch = 0;        ///< of the clock: indices of different epochs do not compare
  /// Samples of the request that are filled in, and not real. Of a result: those from the earliest sample at which an
  /// output stands to the request's last.
  std::uint32_t filled = 0;
  time_quality quality = time_quality::none;
  std::uint8_t flags = 0;  ///< of the constants above

  bool operator==(const sample_account&) const = default;
  [[nodiscard]] constexpr bool knows_index() const noexcept { return (flags & index_known) != 0; }
  /// An account that knows the index alone.
  [[nodiscard]] static constexpr sample_account at(std::int64_t index, std::uint32_t epoch = 0) noexcept {
    sample_account made;
    made.index = index;
    made.epoch = epoch;
    made.flags = index_known;
    return made;
  }
};

}  // namespace penstock
