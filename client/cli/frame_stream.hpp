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
#include <penstock/pipeline_info.hpp>

#include "base/histogram.hpp"
#include "client/cli/input_stream.hpp"
#include "client/cli/sample_source.hpp"
#include "client/cli/sample_time.hpp"
#include "client/cli/terminal.hpp"

namespace penstock::cli {

/// Errors of one kind: their number, and the text of the first.
struct error_count {
  std::uint64_t requests = 0;
  std::string first;
};

/// The results of a stream of frames.
struct stream_report {
  std::uint64_t frames = 0;  ///< sent
  std::uint64_t requests = 0;
  std::uint64_t result_frames = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t dropped_tail_bytes = 0;       ///< bytes at the end that did not fill a frame
  std::int64_t tail_leading = 0;              ///< leading extent of a shorter last frame; 0 = none
  std::chrono::nanoseconds elapsed{};         ///< from the first sample read to the last reply
  latency_histogram latencies;                ///< of requests with a result
  std::map<std::string, error_count> errors;  ///< by kind
  std::string session;                        ///< as in the sentence "... in SESSION"; "" = none
};

/// The report as lines of text.
[[nodiscard]] std::string report_text(const stream_report& report, const pipeline_info& pipeline);

/// A request that is ready to be sent.
struct stream_request {
  std::vector<std::byte> bytes;
  std::uint32_t frames = 1;
  std::int64_t leading = 0;  ///< of a shorter frame; 0: none is shorter
  std::optional<sample_account> account{};
};

/// Sends the samples of a source through a pipeline and passes the results on in order.
class frame_stream {
 public:
  struct settings {
    std::uint32_t frames_per_request = 1;
    std::uint32_t in_flight = 16;  ///< requests sent and not yet passed on
    std::chrono::nanoseconds timeout{};
    /// Longest time that samples of a live source wait to fill a frame.
    std::chrono::nanoseconds flush = std::chrono::milliseconds{100};
    std::optional<sample_numbers> numbers{};  ///< of the samples; requests have them in their accounts
  };
  /// Submits a request, to a pipeline or to a session. May block and throw as those do. session_lost, thrown or as a
  /// later reply, ends the stream.
  using submitter = std::function<void(client::request, completion)>;
  /// Called by one thread of the stream, in order of the frames. An exception ends the stream, and `run` rethrows it.
  struct sink {
    std::function<void(const result&)> next;
    std::function<void(std::uint64_t frames)> missing;  ///< instead of `next` when there is no result
    std::function<void(const progress&)> moved;
  };

  /// `stop` ends the stream early, like the end of the source, which must also wait for it. The stream requests it
  /// itself when the sink throws. Must outlive the stream.
  frame_stream(submitter submit, pipeline_info pipeline, settings settings, sink results, stop_event& stop);

  /// Returns when all requests have ended.
  [[nodiscard]] stream_report run(sample_source& source);
  /// The same, of requests; nullopt: there are no more.
  [[nodiscard]] stream_report run(const std::function<std::optional<stream_request>()>& next);

 private:
  struct arrival {
    std::uint32_t frames = 0;
    outcome reply;
  };

  [[nodiscard]] stream_report run_with(const std::function<void()>& read);
  void read_all(sample_source& source);
  void send(std::vector<std::byte>&& bytes, std::uint32_t frames, std::int64_t leading);
  void send(stream_request&& next);
  /// Sends the whole frames, and the rest as a shorter frame if the stream was flushed or has ended. Leaves unsent
  /// bytes in `bytes`.
  void send_whole(std::vector<std::byte>& bytes, bool ended);
  void hand_on_all();
  void hand_on(arrival&& next);
  void arrived(std::uint64_t sequence, std::uint32_t frames, outcome&& ended);
  [[nodiscard]] bool take_place();
  /// Of the next request, which has so many samples.
  [[nodiscard]] std::optional<sample_account> account_of_next(std::int64_t samples);

  const submitter submit_;
  const pipeline_info pipeline_;
  const settings settings_;
  const sink sink_;
  stop_event& stop_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, arrival> arrivals_;  ///< by order of sending
  std::uint64_t sent_ = 0;
  std::uint64_t handed_on_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::int64_t samples_sent_ = 0;
  bool all_sent_ = false;
  std::atomic<bool> lost_{false};  ///< the session or the pipeline is gone
  bool broken_ = false;            ///< the sink has thrown

  stream_report report_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace penstock::cli
