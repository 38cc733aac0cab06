#pragma once

#include <cstddef>

#include "daemon/settings/settings.hpp"

namespace penstock {

/// With fewer for each shard, one that spins keeps ZeroMQ's threads, the device's and the clients' from theirs; nor is
/// there one that the daemon could do without.
constexpr std::size_t processors_to_spare = 4;

/// What a shard is told to do on a machine with so many processors, which all shards share: what the configuration
/// leaves to the machine is filled in, and a shard spins only where another thread does not wait for its processor.
[[nodiscard]] settings fitted(settings what, std::size_t shards, std::size_t processors);

}  // namespace penstock
