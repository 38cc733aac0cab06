#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <zmq.hpp>

namespace penstock {

/// The parts of one reply, without the routing id.
using reply_parts = std::vector<zmq::message_t>;

/// One client's finished replies, for requests that it repeats. Replies share their bytes with what was sent.
///
/// Every request id has its place, by its remainder. A reply that may run again is kept if it is small enough for every
/// place to have one like it; replies to frames of a session, which never run twice, are kept up to the whole budget,
/// and the oldest of them go first. Thread: the shard.
class reply_cache {
 public:
  reply_cache() = default;
  /// `places`: at least the client's credits; `budget`: bytes; `largest_plain`: of a reply that may run again, at most.
  reply_cache(std::size_t places, std::size_t budget, std::size_t largest_plain);

  /// Whether a session's reply of that size can be kept at all.
  [[nodiscard]] bool takes(std::size_t bytes) const noexcept { return bytes <= budget_; }
  /// In place of what its place held, also when it is too large itself.
  void keep(std::uint64_t id, reply_parts& parts, bool of_session);
  /// That reply must not be given again.
  void remove(std::uint64_t id) noexcept;
  /// Lets `found` be the reply's parts, which share their bytes with the cache; empty when it is not there.
  void find(std::uint64_t id, reply_parts& found);

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct entry {
    std::uint64_t id = 0;
    reply_parts parts;
    std::size_t charged = 0;     // bytes of the budget: a session's reply
    std::uint32_t older = none;  // among the charged ones
    std::uint32_t newer = none;
  };

  void empty(std::uint32_t place) noexcept;

  std::vector<entry> entries_;
  std::size_t budget_ = 0;
  std::size_t largest_plain_ = 0;
  std::size_t charged_ = 0;
  std::uint32_t oldest_ = none;
  std::uint32_t newest_ = none;
};

/// Of all parts together.
[[nodiscard]] std::size_t bytes_of(const reply_parts& parts) noexcept;

}  // namespace penstock
