#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/request/account.hpp"
#include "daemon/request/request.hpp"
#include "kernels/fault.hpp"

namespace penstock {

/// The requests that are launched together, in the order of their frames. It lives in a slot. Thread: the shard.
struct batch {
  const plan* pipeline = nullptr;
  std::vector<request*> requests;  ///< reserved for the most frames that any plan batches
  std::size_t shared = 0;          ///< of them, those whose frames lie in shared memory
  /// It is one request whose payload stays where it came in: its place in the payload_store, and, once it is launched,
  /// where its bytes are.
  std::optional<std::uint32_t> in_place;
  std::byte* input = nullptr;
  bool rewrites = false;  ///< and its result is written over it: see plan::rewrites_input
  std::int64_t frames = 0;
  std::int64_t leading = 0;  ///< of the input's leading dimension; the same for all its requests
  time_point oldest = never;
  time_point launched = never;
  close_reason reason = close_reason::idle;
  fault refused;  ///< the device did not take all of its work: it has no results

  void clear() noexcept {
    pipeline = nullptr;
    requests.clear();
    shared = 0;
    in_place.reset();
    input = nullptr;
    rewrites = false;
    frames = 0;
    oldest = never;
    launched = never;
    refused = {};
  }
};

/// What the wheel can take right now.
enum class wheel_room : std::uint8_t {
  none,  ///< every stream has all the batches that it may have
  some,  ///< a stream can take a batch behind the one that it runs
  idle,  ///< a stream has nothing to do, or will soon have
};

}  // namespace penstock
