#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <penstock/request_error.hpp>
#include <penstock/subscription.hpp>
#include <zmq.hpp>

#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock::link {

/// What has come of one subscription and was not taken yet; the oldest goes when it is full. Or, with a callback, hands
/// it on at once. The connection's thread fills it; any thread takes from it.
class feed {
 public:
  feed(wire::subscribe wanted, std::size_t buffer_bytes, std::function<void(published&&)> received)
      : wanted_(std::move(wanted)), buffer_bytes_(buffer_bytes), received_(std::move(received)) {}

  // Thread: the connection's.

  [[nodiscard]] const wire::subscribe& wanted() const noexcept { return wanted_; }
  /// The daemon has lost the subscription, and another one begins.
  void restart() noexcept;
  /// PUBLISHER.
  void hear(wire::publisher&& source);
  /// PUBLISHED. False when it is malformed. A callback's exceptions come through.
  [[nodiscard]] bool take_in(const wire::message_header& header, std::vector<zmq::message_t>& parts);

  // Any thread.

  /// Nothing more comes; what has come can still be taken.
  void end(std::optional<request_error> error);
  /// As subscription::next and ended.
  [[nodiscard]] std::optional<published> next(std::optional<std::chrono::nanoseconds> at_most);
  [[nodiscard]] bool ended() const;

 private:
  void add(published&& item);

  const wire::subscribe wanted_;
  const std::size_t buffer_bytes_;
  const std::function<void(published&&)> received_;

  // Of the connection's thread.
  std::map<std::uint32_t, std::shared_ptr<const wire::publisher>> publishers_;
  std::uint64_t next_sequence_ = 0;
  bool restarted_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<published> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t passed_over_ = 0;     // lost here, before the first that waits
  bool passed_over_restart_ = false;  // the first after a restart was among them
  bool ended_ = false;
  std::optional<request_error> error_;  // until it was thrown
};

}  // namespace penstock::link
