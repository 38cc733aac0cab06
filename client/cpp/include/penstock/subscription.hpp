#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/client.hpp>
#include <penstock/export.hpp>
#include <penstock/result.hpp>

namespace penstock {

namespace link {
class feed;
}

/// What a subscription is for, and how much of it may wait.
struct subscribe_options {
  std::vector<std::string> more_pipelines{};  ///< beside the one that client::subscribe names
  /// Patterns of sessions' names, of which one must match: "*" stands for any letters, "?" for one byte. Empty: all,
  /// and requests of no session, whose name is "".
  std::vector<std::string> sessions{};
  std::vector<std::string> outputs{};  ///< that come; empty: all
  /// What clients send instead of the results: each request that the daemon accepts, as one output "input".
  bool requests = false;
  /// What the daemon keeps for this subscription while its connection is too slow; 0: what the daemon thinks right.
  std::uint64_t queue_bytes = 0;
  /// What waits in this process for `next`. Beyond it the oldest results are lost. Not for a callback.
  std::size_t buffer_bytes = std::size_t{64} << 20U;
};

/// A result of some client's request, or with subscribe_options::requests the request.
struct published {
  result outputs;       ///< each with a leading frames dimension
  std::string session;  ///< the name of the session that it belongs to; "" without one
  std::string client;   ///< the name of the client whose request it was
  std::string pipeline;
  std::uint32_t publisher = 0;  ///< a number for this session, or for this client without one; given once
  std::uint64_t sequence = 0;   ///< its number among the results that match the subscription
  std::uint64_t lost = 0;       ///< how many of these were lost directly before it, in the daemon or here
  /// The daemon restarted, or forgot this client, before it: what was lost then is not in `lost`.
  bool restarted = false;
  bool is_source = false;  ///< the client is a source of the daemon itself
};

/// Results of any client of a pipeline, as they come. Made by client::subscribe. Must be destroyed before its client.
/// After a move, only destruction and assignment are allowed. When the connection was lost the subscription goes on
/// over the next one; when the daemon restarted it is made again. Threads: all members are thread-safe, except moves
/// and the destructor.
class PENSTOCK_EXPORT subscription {
 public:
  subscription(subscription&& other) noexcept;
  subscription& operator=(subscription&& other) noexcept;
  subscription(const subscription&) = delete;
  subscription& operator=(const subscription&) = delete;
  /// Closes the subscription. A callback that runs on the client's thread meanwhile may still end after this.
  ~subscription();

  /// The next result; waits for it for `at_most`, or as long as it takes. nullopt when none came in time, or when the
  /// subscription has ended. Throws request_error, once, if it ended with an error: a daemon that has restarted does
  /// not serve the pipeline any more, or the client is being destroyed.
  [[nodiscard]] std::optional<published> next(std::optional<std::chrono::nanoseconds> at_most = std::nullopt);
  /// True when nothing is left and nothing comes.
  [[nodiscard]] bool ended() const noexcept;
  /// What the daemon keeps for it.
  [[nodiscard]] std::uint64_t queue_bytes() const noexcept { return queue_bytes_; }
  void close() noexcept;

 private:
  friend class client;
  subscription(client::implementation& owner, std::shared_ptr<link::feed> feed, std::uint64_t id,
               std::uint64_t queue_bytes) noexcept;

  client::implementation* owner_;
  std::shared_ptr<link::feed> feed_;  ///< nullptr after a move
  std::uint64_t id_;
  std::uint64_t queue_bytes_;
};

}  // namespace penstock
