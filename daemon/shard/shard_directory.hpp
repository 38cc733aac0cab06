#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// Where the shards of a daemon listen, and which of them a new client should use. The first is the front door: clients
/// come to it by the configured endpoints, and it sends them on to the shards in turn. Written before any shard serves,
/// then read by all of their threads.
class shard_directory {
 public:
  explicit shard_directory(std::vector<std::vector<std::string>> endpoints) : endpoints_(std::move(endpoints)) {}

  [[nodiscard]] std::size_t size() const noexcept { return endpoints_.size(); }
  /// By shard, in the order of the configuration's `listen`.
  [[nodiscard]] const std::vector<std::vector<std::string>>& endpoints() const noexcept { return endpoints_; }
  /// For a client that is new to shard `answering`.
  [[nodiscard]] std::uint32_t choose(std::uint32_t answering) noexcept {
    return answering != 0 ? answering
                          : static_cast<std::uint32_t>(turn_.fetch_add(1, std::memory_order_relaxed) % size());
  }

 private:
  std::vector<std::vector<std::string>> endpoints_;
  std::atomic<std::size_t> turn_{0};  // the front door's thread reads and writes it
};

/// The endpoints of each of `shards` shards, made from the configured ones: for shard k a port that is k higher ("*"
/// stays), a path or a name with "." and k behind it. Throws configuration_error when there is no such port, or when
/// two shards would have the same endpoint.
[[nodiscard]] std::vector<std::vector<std::string>> endpoints_of_all(const std::vector<std::string>& listen,
                                                                     std::size_t shards);

}  // namespace penstock
