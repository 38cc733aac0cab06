#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// A daemon that is scarce of one thing, and how to ask it for more.
struct overload_case {
  std::string name;
  std::string configuration;
  std::uint32_t pipeline = 0;
  std::size_t floats = 0;   ///< of a frame
  std::size_t credits = 0;  ///< requests that a client may have in flight
};

inline constexpr std::size_t overload_clients = 4;

/// Where the device is scarce and what is too much is refused; where the sockets and the shard are; and where the
/// device is and the oldest request that waits is dropped for a newer one.
[[nodiscard]] std::vector<overload_case> overload_cases(const std::string& backend);

/// Requests a second that the daemon can do, from as many clients as press it later, each with as much in flight as its
/// credits allow. What the daemon may keep of them it has allocated afterwards.
[[nodiscard]] double capacity_of(const std::string& endpoint, const overload_case& of, bool quick);

}  // namespace penstock::bench
