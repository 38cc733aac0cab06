#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <penstock/client.hpp>
#include <penstock/session.hpp>

#include "base/histogram.hpp"
#include "client/cli/frame_stream.hpp"

namespace penstock::cli {

/// Distributes a benchmark client's requests over its sessions in turn, or sends them to the pipeline if it has none.
/// Not thread-safe.
class session_turns {
 public:
  /// Opens the sessions. Throws request_error as client::open_session does. `through` must outlive this.
  session_turns(client& through, std::string pipeline, int sessions);

  // As in client and session.

  std::uint64_t submit(client::request request, completion done);
  [[nodiscard]] std::optional<std::uint64_t> try_submit(client::request request, completion done);

 private:
  /// The next session in turn; nullptr when there are none.
  session* next() noexcept;

  client& client_;
  std::string pipeline_;
  std::vector<session> sessions_;
  std::size_t turn_ = 0;
};

/// Settings of a benchmark.
struct load_settings {
  client_options connection;
  std::string pipeline;
  std::uint32_t frames = 1;  ///< of a request
  std::int64_t leading = 0;  ///< leading extent of its frames; 0 = the maximum
  std::size_t request_bytes = 0;
  int clients = 1;
  int sessions = 0;              ///< per client; 0: requests go to the pipeline
  std::uint32_t in_flight = 16;  ///< closed loop: requests per client
  double rate = 0;               ///< open loop: requests per second of all clients; 0 = closed loop
  std::chrono::nanoseconds warmup = std::chrono::seconds{1};
  std::chrono::nanoseconds duration = std::chrono::seconds{5};
};

/// Measurements, without the warm-up.
struct load_report {
  std::uint64_t requests = 0;  ///< with a result
  std::uint64_t bytes_out = 0;
  std::uint64_t unshared = 0;  ///< large ones that found no room in shared memory, including the warm-up
  latency_histogram latencies;
  std::map<std::string, error_count> errors;  ///< by kind, including the warm-up
  std::chrono::nanoseconds elapsed{};

  void merge(const load_report& other);
};

/// A few payloads of random non-zero bytes, used in turn.
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

/// The payloads of one client: large ones lie in memory shared with the daemon, if any, so that no transport copies
/// them.
class client_payloads {
 public:
  /// `shared_payloads` must live longer.
  client_payloads(const load_settings& settings, const payloads& shared_payloads, client& sender);
  /// Threads: any.
  [[nodiscard]] std::span<const std::byte> of(std::uint64_t request) const noexcept {
    return lent_.empty() ? from_.of(request) : lent_[request % lent_.size()].bytes();
  }

 private:
  const payloads& from_;
  std::vector<lent_memory> lent_;
};

/// Closed loop: each client keeps `in_flight` requests in flight. Latency is from submit to reply.
[[nodiscard]] load_report run_closed_loop(const load_settings& settings);

/// Open loop: requests are sent at the given rate, independent of replies. Latency counts from the intended send time,
/// so that delays by a slow daemon are included.
[[nodiscard]] load_report run_open_loop(const load_settings& settings);

}  // namespace penstock::cli
