#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/client.hpp>
#include <penstock/subscription.hpp>

#include "client/cli/commands.hpp"
#include "client/cli/input_stream.hpp"

namespace penstock::cli {

/// Listens to a pipeline on every shard of the daemon that can be reached: a subscription is of one shard.
class listener {
 public:
  /// Called with one item at a time, from any of the listener's threads. `shard` is a number from 0.
  using taker = std::function<void(const published& item, std::size_t shard)>;

  /// Connects. Says on standard error which shards can't be reached.
  explicit listener(const global_options& global);

  [[nodiscard]] client& first() { return *clients_.front(); }
  /// Throws request_error.
  void subscribe(const std::string& pipeline, const subscribe_options& wanted);
  /// Until `stop`, which it requests itself when `take` or a subscription throws, until that time, or the end of all
  /// subscriptions. With `to_the_last`, what has come by then is taken too, and what was sent before a
  /// signal. Throws std::runtime_error with what was thrown.
  void run(const taker& take, stop_event& stop, std::optional<std::chrono::steady_clock::time_point> until = {},
           bool to_the_last = false);

 private:
  std::vector<std::unique_ptr<client>> clients_;
  std::vector<subscription> subscriptions_;
};

}  // namespace penstock::cli
