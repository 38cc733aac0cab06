#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include <penstock/pipeline_info.hpp>

#include "client/cli/latency_histogram.hpp"

namespace penstock::cli {

/// Errors of one kind: how many, and what the first one said.
struct error_count {
  std::uint64_t requests = 0;
  std::string first;
};

/// What became of a stream of frames.
struct stream_report {
  std::uint64_t frames = 0;  ///< sent
  std::uint64_t requests = 0;
  std::uint64_t result_frames = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t dropped_tail_bytes = 0;       ///< at the end, too few for a frame
  std::int64_t tail_leading = 0;              ///< leading extent of a shorter last frame; 0 = there was none
  std::chrono::nanoseconds elapsed{};         ///< from the first sample read to the last reply
  latency_histogram latencies;                ///< of requests with a result
  std::map<std::string, error_count> errors;  ///< by kind
  std::string session;                        ///< how it belongs to the sentence "... in SESSION"; "" = none
};

/// The figures as lines for people.
[[nodiscard]] std::string report_text(const stream_report& report, const pipeline_info& pipeline);

}  // namespace penstock::cli
