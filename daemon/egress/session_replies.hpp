#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/egress/reply_parts.hpp"

namespace penstock {

/// One client's finished replies to frames of its sessions, for requests that it repeats: they never run twice. They
/// share their bytes with what was sent.
///
/// Every request id has its place, by its remainder. Replies are kept up to the budget; the oldest of them go first.
/// Thread: the shard.
class session_replies {
 public:
  session_replies() = default;
  /// `places`: at least the client's credits; `budget`: bytes. Allocates when the first reply is kept.
  session_replies(std::size_t places, std::size_t budget) noexcept : places_(places), budget_(budget) {}

  /// Whether a reply of that size can be kept at all.
  [[nodiscard]] bool takes(std::size_t bytes) const noexcept { return bytes <= budget_; }
  /// In place of what its place held, also when it is too large itself.
  void keep(std::uint64_t id, reply_parts& parts);
  /// That reply must not be given again.
  void remove(std::uint64_t id) noexcept;
  /// Lets `found` be the reply's parts, which share their bytes with what is kept; empty when it is not there.
  void find(std::uint64_t id, reply_parts& found);

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct entry {
    std::uint64_t id = 0;
    reply_parts parts;
    std::size_t bytes = 0;  // of the budget
    std::uint32_t older = none;
    std::uint32_t newer = none;
  };

  void empty(std::uint32_t place) noexcept;

  std::size_t places_ = 0;
  std::size_t budget_ = 0;
  std::vector<entry> entries_;
  std::size_t kept_bytes_ = 0;
  std::uint32_t oldest_ = none;
  std::uint32_t newest_ = none;
};

}  // namespace penstock
