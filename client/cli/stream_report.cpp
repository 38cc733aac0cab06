#include "client/cli/stream_report.hpp"

#include <algorithm>

#include "client/cli/quantity.hpp"

namespace penstock::cli {
namespace {

std::string count_of(std::uint64_t count) {
  return count_text(static_cast<double>(count));
}

std::string throughput_text(const stream_report& report) {
  const double seconds = std::max(std::chrono::duration<double>(report.elapsed).count(), 1e-9);
  return "  throughput  " + count_text(static_cast<double>(report.result_frames) / seconds) + " frames/s, " +
         bytes_text(static_cast<double>(report.bytes_in) / seconds) + "/s in, " +
         bytes_text(static_cast<double>(report.bytes_out) / seconds) + "/s out\n";
}

std::string latency_text(const latency_histogram& latencies) {
  if (latencies.count() == 0) {
    return "";
  }
  return "  latency     p50 " + duration_text(latencies.percentile(50)) + "   p90 " +
         duration_text(latencies.percentile(90)) + "   p99 " + duration_text(latencies.percentile(99)) + "   max " +
         duration_text(latencies.max()) + "\n";
}

std::string tail_text(const stream_report& report, const tensor_info& input) {
  std::string text;
  if (report.tail_leading > 0) {
    text += "  tail        the last frame was shorter: " + count_of(static_cast<std::uint64_t>(report.tail_leading)) +
            " of " + std::to_string(input.shape.front()) + "\n";
  }
  if (report.dropped_tail_bytes > 0) {
    text += "  tail        " + count_of(report.dropped_tail_bytes) + " bytes at the end did not fill a " +
            (input.variable ? "row" : "frame of " + count_of(input.frame_bytes())) + " and were left out\n";
  }
  return text;
}

}  // namespace

std::string report_text(const stream_report& report, const pipeline_info& pipeline) {
  std::string text = count_of(report.result_frames) + " of " + count_of(report.frames) + " frames through \"" +
                     pipeline.name + "\" in " + duration_text(report.elapsed) +
                     (report.session.empty() ? "" : ", in " + report.session) + "\n" + throughput_text(report) +
                     latency_text(report.latencies) + tail_text(report, pipeline.input);
  for (const auto& [kind, count] : report.errors) {
    text += "  errors      " + count_of(count.requests) + " " + kind + ": " + count.first + "\n";
  }
  return text;
}

}  // namespace penstock::cli
