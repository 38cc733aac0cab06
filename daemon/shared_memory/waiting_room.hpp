#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock {

class arena_lease;

/// Connections that have shown no valid ticket yet. Anybody may come, so there is room for so many of each user and of
/// all, and who has waited longest makes room for who comes: a client shows its ticket at once, and needs no patience
/// of ours. Thread: the keeper's.
class waiting_room {
 public:
  static constexpr std::size_t most = 64;
  static constexpr std::size_t most_of_a_user = 16;

  /// Who is to go before one more of that user comes, and still to `leave`; nullptr while there is room. When all
  /// places are taken it is one of the user that has the most.
  [[nodiscard]] arena_lease* surplus(std::uint32_t user) const;
  void enter(arena_lease& who, std::uint32_t user);
  /// It has an arena coming, or has ended. No change for one that is not here.
  void leave(const arena_lease& who) noexcept;

 private:
  struct visitor {
    arena_lease* who;
    std::uint32_t user;
  };
  [[nodiscard]] std::size_t count(std::uint32_t user) const noexcept;
  [[nodiscard]] arena_lease* oldest_of(std::uint32_t user) const noexcept;

  std::vector<visitor> visitors_;  ///< in the order in which they came
};

}  // namespace penstock
