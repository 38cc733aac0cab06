#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shard/shard_report.hpp"

namespace penstock {

/// A pipeline that is ready to be served: compiled, with the states of its sessions, each of its kernels launched once.
struct fresh_pipeline {
  std::unique_ptr<plan> what;
  device_memory states;          ///< none when it keeps none
  std::int64_t brief_steps = 0;  ///< what wheel::warm_up returned
};

/// Streams for a priority that no pipeline had before.
struct fresh_streams {
  stream_priority priority = stream_priority::normal;
  std::vector<std::unique_ptr<stream>> streams;
};

/// Another configuration, made ready for one shard while it serves.
struct shard_change {
  std::uint64_t attempt = 0;  ///< which reload this belongs to; each has a number of its own
  configuration_report configuration;
  std::string reload;  ///< as messages to clients call it: "the reload of 2026-01-31 12:00:00 UTC"
  settings how;        ///< what of it can change at run time counts
  std::vector<std::uint32_t>
      order;  ///< the numbers of all pipelines that are served then, in the configuration's order
  std::vector<fresh_pipeline> fresh;  ///< of them, those that are new or different
  std::vector<fresh_streams> streams;
};

/// Compiles a pipeline beside a shard that serves, and launches its kernels on streams of its own. Any thread. Throws
/// device_error or configuration_error.
[[nodiscard]] fresh_pipeline make_fresh(const pipeline_declaration& declared, std::uint32_t id, device& on,
                                        const settings& how);

}  // namespace penstock
