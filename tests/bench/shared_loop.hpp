#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/client.hpp>

#include "daemon/device/device.hpp"

namespace penstock::bench {

/// A closed loop with the C++ client library, over ZeroMQ or shared memory. Each frame is sent again from where it lies
/// as soon as its result arrives; results are not read.
class shared_loop {
 public:
  struct load_settings {
    std::string endpoint;
    penstock::transport transport = penstock::transport::zmq;
    std::size_t bytes = 0;  ///< of a frame and of its result
    std::size_t in_flight = 1;
    std::size_t pipeline = 0;  ///< index among the daemon's
  };
  struct figures {
    double requests_per_second = 0;
    double latency_p50_us = 0;
  };

  /// Throws connect_error, and std::runtime_error if the daemon shares no memory.
  explicit shared_loop(const load_settings& settings);

  /// Sends for `span`, then waits for what is in flight. Throws std::runtime_error if a request fails or uses the other
  /// transport.
  figures run(std::chrono::milliseconds span);

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] std::span<const std::byte> frame(std::size_t number) const noexcept;
  void send(std::size_t number);
  void take(std::size_t number, outcome&& ended) noexcept;

  load_settings settings_;
  std::string pipeline_;
  client client_;
  std::vector<lent_memory> shared_frames_;
  std::vector<std::byte> own_frames_;

  std::mutex mutex_;  // guards what follows: used by the thread of run() and the client's
  std::condition_variable idle_;
  clock::time_point until_;
  std::size_t in_flight_ = 0;
  std::vector<double> latencies_us_;
  std::optional<std::string> failure_;
};

/// The limit of frames in shared memory: copies of pinned memory in and out, back to back.
class two_way_copies {
 public:
  /// Opens a device of its own. Throws device_error.
  two_way_copies(const std::string& backend, std::size_t max_bytes);

  /// GB/s each way of `copies` copies of `bytes`, which walk through the memory: one stream each way. Throws
  /// std::runtime_error if the device fails.
  [[nodiscard]] double at_once(std::size_t bytes, std::size_t copies) { return walk(*out_, bytes, copies); }
  /// The same on one stream: a copy in, then one out.
  [[nodiscard]] double in_turn(std::size_t bytes, std::size_t copies) { return walk(*in_, bytes, copies); }

 private:
  [[nodiscard]] double walk(stream& out, std::size_t bytes, std::size_t copies);

  std::unique_ptr<device> device_;
  std::size_t bytes_;
  device_memory pinned_input_, pinned_output_, input_, output_;
  std::unique_ptr<stream> in_, out_;
};

}  // namespace penstock::bench
