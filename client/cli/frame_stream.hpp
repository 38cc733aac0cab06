#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <penstock/client.hpp>

#include "client/cli/progress_bar.hpp"
#include "client/cli/sample_source.hpp"
#include "client/cli/stop_event.hpp"
#include "client/cli/stream_report.hpp"

namespace penstock::cli {

/// Sends all samples of a source through a pipeline, frame after frame, and hands the results on in the same order.
class frame_stream {
 public:
  struct settings {
    std::uint32_t frames_per_request = 1;
    std::uint32_t in_flight = 16;  ///< requests between being sent and being handed on
    std::chrono::nanoseconds timeout{};
    /// How long samples of a live source wait for others before they are sent.
    std::chrono::nanoseconds flush = std::chrono::milliseconds{100};
  };
  /// How a request is submitted: to a client's pipeline or to a session. It may wait and throw as those do; when it
  /// throws session_lost the stream ends, because nothing can follow; so it does when such an answer comes later.
  using submitter = std::function<void(client::request, completion)>;
  /// Called by one thread of the stream, in the order of the frames. What they throw ends the stream, and `run` throws
  /// it.
  struct sink {
    std::function<void(const result&)> next;
    std::function<void(std::uint64_t frames)> missing;  ///< in place of `next` where there is no result
    std::function<void(const progress&)> moved;
  };

  /// `stop`, which the source waits for too, ends it early as the source's end would, and must live longer than the
  /// stream. The stream requests it itself when the sink throws.
  frame_stream(submitter to, pipeline_info pipeline, settings how, sink results, stop_event& stop);

  /// Returns when every request has ended.
  [[nodiscard]] stream_report run(sample_source& from);

 private:
  struct arrival {
    std::uint32_t frames = 0;
    outcome how;
  };

  void read_all(sample_source& from);
  void send(std::vector<std::byte>&& bytes, std::uint32_t frames, std::int64_t leading);
  /// Sends the whole frames, and of a flushed or ended stream the rows behind them; keeps the rest in `bytes`.
  void send_whole(std::vector<std::byte>& bytes, bool ended);
  void hand_on_all();
  void hand_on(arrival&& next);
  void arrived(std::uint64_t sequence, std::uint32_t frames, outcome&& how);
  [[nodiscard]] bool take_place();

  const submitter submit_;
  const pipeline_info pipeline_;
  const settings how_;
  const sink sink_;
  stop_event& stop_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, arrival> arrivals_;  ///< by the order in which they were sent
  std::uint64_t sent_ = 0;
  std::uint64_t handed_on_ = 0;
  std::uint64_t bytes_sent_ = 0;
  bool all_sent_ = false;
  std::atomic<bool> lost_{false};  ///< the session has ended, or the pipeline is gone
  bool broken_ = false;            ///< the sink threw

  stream_report report_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace penstock::cli
