#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <poll.h>

#include "proto/message.hpp"

namespace penstock::live {

using wire::time_quality;

/// Where samples were lost before they came here.
enum class loss_kind : std::uint8_t {
  network,  ///< under way, or by the sender
  kernel    ///< in the socket's buffer on this machine
};

/// An index beyond this, or below its negative, is none: something else was taken for it.
constexpr std::int64_t furthest_index = std::int64_t{1} << 60;

/// Stands for one of a reader's streams: a topic, a stream id of VITA-49. Small numbers from 0.
using stream_number = std::uint32_t;

/// Samples of a stream that follow each other without a gap.
struct sample_run {
  std::span<const std::byte> bytes;  ///< whole samples, as they are for the pipeline (host order), valid for the call
  /// Index of the first sample in the source's clock. Larger than expected: a gap of that place and length. Smaller:
  /// samples that are late or a duplicate. Absent: the run follows on.
  std::optional<std::int64_t> at{};
  std::int64_t time_ns = 0;  ///< of the first sample, since 1970 UTC; counts where `quality` is not none
  time_quality quality = time_quality::none;
  bool restored = false;  ///< it came before others that stand before it
};

/// What a reader hands its samples to. Thread: that of the source; no call is kept beyond its end.
class sample_receiver {
 public:
  virtual ~sample_receiver() = default;

  /// The number of the stream of that name, a new one when the name is new. nullopt when the source has as many streams
  /// as it may: then the stream's samples are dropped, and counted. The only call that may allocate: once a stream, not
  /// once a packet.
  [[nodiscard]] virtual std::optional<stream_number> stream(std::string_view name) = 0;

  /// Takes the run; its bytes are copied. Where the source waits for the pipeline (overrun = "block"), it may block
  /// until there is room or the source is told to stop.
  virtual void samples(stream_number stream, const sample_run& run) = 0;

  /// Memory in which the next samples of the stream will lie, up to the end of a block; empty when there is none now. A
  /// run of which the bytes begin there is not copied; only a run that begins with the sample that is expected next may
  /// lie there. Valid until the next call.
  [[nodiscard]] virtual std::span<std::byte> room(stream_number stream) = 0;

  /// Samples were lost directly before the next run. Where that run says `at`, the gap is as long as `at` says, and
  /// this says only how many of it were lost where (what is not said was lost in the network). Where it does not, this
  /// is the gap.
  virtual void loss(stream_number stream, loss_kind kind, std::uint64_t samples) = 0;

  /// The next run begins a new epoch: its indices and times have nothing to do with those before (the sender started
  /// again, its rate changed). `why` is a few words for the log.
  virtual void epoch(stream_number stream, std::string_view why) = 0;

  /// Samples came that had come before, and were dropped.
  virtual void duplicate(stream_number stream, std::uint64_t samples) = 0;

  /// Samples may have been lost directly before the next run, nobody knows how many.
  virtual void suspect(stream_number stream) = 0;

  /// A message that is no such message, or is cut short: counted, and logged now and then. `why` is a literal.
  virtual void malformed(std::string_view why) = 0;

  /// The connection to the sender stands (again), or is gone. For STATUS and the log; changes nothing else.
  virtual void connected(bool stands, std::string_view what) = 0;
};

/// What came of a call of `read`.
enum class read_progress : std::uint8_t {
  some,    ///< something was read: call again
  none,    ///< nothing is there: wait for a descriptor, or until `wanted_at`
  ended,   ///< there will never be more: the end of a file
  failed,  ///< it can't go on: make a new reader after a pause (back-off); `failure` says why
};

/// Reads a wire, or a file, for one source. It is made on the source's thread, and used and destroyed there; making it
/// throws std::runtime_error when it can't begin (no such host, address in use), and is tried again after a pause. It
/// allocates nothing a packet, and never blocks: it reads what is there.
class sample_reader {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  virtual ~sample_reader() = default;

  /// Appends what to wait for. May change after each `read`.
  virtual void descriptors(std::vector<pollfd>& wanted) const = 0;

  /// Reads what is there and hands it to `receiver`, until nothing is there or the clock passes `until`; at least one
  /// message. `now` is the time of the call, so that tests can set the clock.
  [[nodiscard]] virtual read_progress read(sample_receiver& receiver, time_point now, time_point until) = 0;

  /// When `read` is to be called even though no descriptor is ready: held packets become too old, a file's pace.
  [[nodiscard]] virtual time_point wanted_at() const { return time_point::max(); }

  /// Of the last `read` that failed.
  [[nodiscard]] virtual std::string_view failure() const { return {}; }
};

}  // namespace penstock::live
