#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock {

/// How often new connections are taken.
struct connection_rates {
  double each_per_second = 250;  ///< of each source
  std::uint32_t each_at_once = 128;
  double all_per_second = 500;
  std::uint32_t all_at_once = 1024;
};

/// Bounds how often new connections are taken, of each source and of all together, whatever one costs: some 200 µs of
/// ZeroMQ's I/O thread and 80 µs of the shard's. A source is a process of this machine, or a network address. Sources
/// are told apart by a hash with a secret: of very many, some share a rate. Time is passed in. Threads: any; no call
/// blocks or allocates.
class connection_rate {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit connection_rate(const connection_rates& rates = {}) noexcept;

  /// Whether that source may have one more connection now; if so, it is counted.
  [[nodiscard]] bool admits(std::uint64_t source, time_point now) noexcept;
  /// How many of a source, and of all, come at once; from now on.
  void set_at_once(std::uint32_t each, std::uint32_t all) noexcept;

 private:
  static constexpr std::size_t buckets = 1024;
  // When everything that was taken would have come at its rate (the generic cell rate algorithm), in nanoseconds.
  using bucket = std::atomic<std::int64_t>;

  static bool take(bucket& from, std::int64_t now, std::int64_t interval, std::int64_t at_once) noexcept;

  std::int64_t each_interval_;
  std::int64_t all_interval_;
  std::atomic<std::uint32_t> each_at_once_;
  std::atomic<std::uint32_t> all_at_once_;
  std::array<bucket, buckets> each_{};
  bucket all_{0};
};

/// The process's: whether a connection that has just been accepted may stay. The process's own may.
[[nodiscard]] bool admit_connection(int descriptor) noexcept;
/// So many clients may come at once: half of them from one source.
void set_expected_clients(std::size_t clients) noexcept;
/// How many `admit_connection` has refused.
[[nodiscard]] std::uint64_t connections_too_often() noexcept;

}  // namespace penstock
