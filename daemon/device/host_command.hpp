#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "daemon/device/device.hpp"
#include "kernels/operation.hpp"

namespace penstock {

class host_queue;

struct host_copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

struct host_launch {
  operation* what = nullptr;
  operation_arguments arguments;
};

/// Later commands wait until `on` has done all commands before `position`.
struct host_wait {
  host_queue* on = nullptr;
  std::uint64_t position = 0;
};

/// Stores the time, in nanoseconds of the steady clock. Written by a worker, read by the event's thread.
struct host_stamp {
  std::atomic<std::int64_t>* at = nullptr;
};

struct host_callback {
  completion_function function = nullptr;
  void* context = nullptr;
};

/// One piece of work of a host stream.
using host_command = std::variant<host_copy, host_launch, host_wait, host_stamp, host_callback>;

}  // namespace penstock
