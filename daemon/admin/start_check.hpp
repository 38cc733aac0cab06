#pragma once

#include <cstddef>

#include "daemon/settings/settings.hpp"

namespace penstock {

/// What a start would refuse, as far as that can be told without the device: pipelines that don't compile (they are
/// compiled for the host), more of them than WELCOME can describe, endpoints that shards can't have, and slots that the
/// machine has no memory for. Throws configuration_error, or device_error.
void check_start(const settings& how);

/// Host memory that slots and the states of sessions take from the start on, in bytes.
struct start_memory {
  std::size_t slots = 0;
  std::size_t sessions = 0;
};

/// Throws configuration_error when that is more than `available` bytes.
void check_memory(const start_memory& needed, std::size_t available);

}  // namespace penstock
