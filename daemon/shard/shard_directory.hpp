#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace penstock {

/// Where the shards of a daemon listen, how many clients each of them has, and which of them a new client should use.
/// The first is the front door: clients come to it by the configured endpoints, and it sends them on. The endpoints are
/// written before any shard serves. A client is known by its token of the front door, which it shows to its shard. The
/// rest may be called from any shard's thread, as clients come and go.
class shard_directory {
 public:
  explicit shard_directory(std::vector<std::vector<std::string>> endpoints)
      : endpoints_(std::move(endpoints)), clients_(endpoints_.size(), 0) {}

  [[nodiscard]] std::size_t size() const noexcept { return endpoints_.size(); }
  /// By shard, in the order of the configuration's `listen`.
  [[nodiscard]] const std::vector<std::vector<std::string>>& endpoints() const noexcept { return endpoints_; }
  /// Where the daemon's admin HTTP answers; none where there is none. Written before any shard serves.
  [[nodiscard]] const std::vector<std::string>& admin() const noexcept { return admin_; }
  void set_admin(std::vector<std::string> addresses) { admin_ = std::move(addresses); }
  /// The shard for a client that is new to shard `answering`. The front door chooses the one with the fewest clients,
  /// in turn among equals; whom it sends on counts there already. The others choose themselves.
  [[nodiscard]] std::uint32_t choose(std::uint32_t answering, const std::string& token);
  /// A client uses that shard from now on.
  void arrived(std::uint32_t shard, const std::string& token);
  /// A client of that shard has left it.
  void left(std::uint32_t shard);
  /// Nobody waits any longer for a client that was sent on; nothing happens if it has arrived.
  void missed(const std::string& token);

 private:
  void forget(const std::string& token);  // holds the lock

  std::vector<std::vector<std::string>> endpoints_;
  std::vector<std::string> admin_;
  std::mutex mutex_;
  std::vector<std::size_t> clients_;  // by shard, those that are on their way included
  std::unordered_map<std::string, std::uint32_t> on_their_way_;
  std::size_t turn_ = 0;
};

/// The endpoints of each of `shards` shards, made from the configured ones: for shard k a port that is k higher ("*"
/// stays), a path or a name with "." and k behind it. Throws configuration_error when there is no such port, or when
/// two shards would have the same endpoint.
[[nodiscard]] std::vector<std::vector<std::string>> endpoints_of_all(const std::vector<std::string>& listen,
                                                                     std::size_t shards);

}  // namespace penstock
