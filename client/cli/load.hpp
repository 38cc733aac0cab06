#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <penstock/client.hpp>

#include "client/cli/latency_histogram.hpp"
#include "client/cli/stream_report.hpp"

namespace penstock::cli {

/// What a benchmark sends.
struct load_settings {
  client_options connection;
  std::string pipeline;
  std::uint32_t frames = 1;  ///< of a request
  std::int64_t leading = 0;  ///< of its frames; 0 = the most
  std::size_t request_bytes = 0;
  int clients = 1;
  int sessions = 0;              ///< of each client, whose requests go to them in turn; 0: to the pipeline
  std::uint32_t in_flight = 16;  ///< closed loop: requests of each client
  double rate = 0;               ///< open loop: requests a second of all clients together; 0 = closed loop
  std::chrono::nanoseconds warmup = std::chrono::seconds{1};
  std::chrono::nanoseconds duration = std::chrono::seconds{5};
};

/// What was measured, after the warm-up.
struct load_report {
  std::uint64_t requests = 0;  ///< with a result
  std::uint64_t bytes_out = 0;
  latency_histogram latencies;
  std::map<std::string, error_count> errors;  ///< by kind, also those of the warm-up
  std::chrono::nanoseconds elapsed{};

  void merge(const load_report& other);
};

/// Payloads of a benchmark: random bytes, none of them zero, a few different ones in turn.
class payloads {
 public:
  explicit payloads(std::size_t bytes);
  /// Threads: any.
  [[nodiscard]] std::span<const std::byte> of(std::uint64_t request) const noexcept {
    return all_[request % all_.size()];
  }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

 private:
  std::vector<std::vector<std::byte>> all_;
};

/// The payloads as one client sends them: large ones from memory that it shares with the daemon, where it has any, so
/// that neither transport makes the client copy them.
class client_payloads {
 public:
  /// `from` must live longer.
  client_payloads(const load_settings& settings, const payloads& from, client& sender);
  /// Threads: any.
  [[nodiscard]] std::span<const std::byte> of(std::uint64_t request) const noexcept {
    return lent_.empty() ? from_.of(request) : lent_[request % lent_.size()].bytes();
  }

 private:
  const payloads& from_;
  std::vector<lent_memory> lent_;
};

/// Each client keeps `in_flight` requests under way: the next leaves when one ends. Latency is from submit to reply.
[[nodiscard]] load_report run_closed_loop(const load_settings& settings);

/// Requests leave at the times that the rate sets, whatever becomes of the earlier ones. Latency is from the time at
/// which a request was meant to leave: what a slow daemon makes late is counted, not hidden.
[[nodiscard]] load_report run_open_loop(const load_settings& settings);

}  // namespace penstock::cli
