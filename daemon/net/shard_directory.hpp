#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace penstock {

/// The shards of a daemon: their endpoints, their numbers of clients, and the choice of a shard for a new client. Shard
/// 0 has the configured endpoints: it is the front door, where clients connect first, and recommends a shard. The
/// client shows that shard its token of the front door, by which it is known here. Endpoints are written before any
/// shard serves; everything else is locked. Any shard's thread.
class shard_directory {
 public:
  explicit shard_directory(std::vector<std::vector<std::string>> endpoints)
      : endpoints_(std::move(endpoints)), clients_(endpoints_.size(), 0) {}

  [[nodiscard]] std::size_t size() const noexcept { return endpoints_.size(); }
  /// By shard; for each in the order of the configuration's `listen`.
  [[nodiscard]] const std::vector<std::vector<std::string>>& endpoints() const noexcept { return endpoints_; }
  /// Addresses of the admin HTTP; empty if there is none. Written before any shard serves.
  [[nodiscard]] const std::vector<std::string>& admin() const noexcept { return admin_; }
  void set_admin(std::vector<std::string> addresses) { admin_ = std::move(addresses); }
  /// The shard for a client that is new to shard `answering`. The front door chooses the shard with the fewest clients
  /// (equal ones in turn) and already counts the client there. Other shards choose themselves.
  [[nodiscard]] std::uint32_t choose(std::uint32_t answering, const std::string& token);
  /// A client uses that shard from now on.
  void arrived(std::uint32_t shard, const std::string& token);
  /// A client of that shard has left it.
  void left(std::uint32_t shard);
  /// A client that was sent on will not arrive. No effect if it has.
  void missed(const std::string& token);

 private:
  void forget(const std::string& token);  // holds the lock

  std::vector<std::vector<std::string>> endpoints_;
  std::vector<std::string> admin_;
  std::mutex mutex_;
  std::vector<std::size_t> clients_;  // by shard, including those on their way
  std::unordered_map<std::string, std::uint32_t> on_their_way_;
  std::size_t turn_ = 0;
};

/// The endpoints of each shard, derived from the configured ones: shard k gets a port that is k higher ("*" stays), or
/// a path or name with "." and k appended. Throws configuration_error if there is no such port, or if two shards would
/// get the same endpoint.
[[nodiscard]] std::vector<std::vector<std::string>> endpoints_of_all(const std::vector<std::string>& listen,
                                                                     std::size_t shards);

}  // namespace penstock
