#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/settings.hpp"
#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/telemetry/report.hpp"
#include "proto/control.hpp"

namespace penstock {

/// A pipeline that is ready to be served: it is compiled, its session states are allocated, and each of its kernels was
/// launched once.
struct fresh_pipeline {
  std::unique_ptr<plan> compiled;
  device_memory states;           ///< none if it keeps no state
  std::int64_t inline_steps = 0;  ///< the result of stream_pool::warm_up
};

/// Compiles a pipeline and warms it up, on streams and in a slot of its own, while the device's shards serve. Any
/// thread. Throws device_error or configuration_error.
[[nodiscard]] fresh_pipeline make_fresh(const pipeline_declaration& declared, std::uint32_t id, device& device,
                                        const settings& settings, const compile_options& code = {});

/// Streams of a class that no pipeline asked for before.
struct fresh_streams {
  stream_class kind;
  std::vector<std::unique_ptr<stream>> streams;
};

/// Tunable numbers of a pipeline of which nothing else has changed.
struct changed_numbers {
  std::uint32_t pipeline = 0;
  std::vector<wire::number_setting> values;
};

/// Another configuration, prepared for one shard while it serves.
struct shard_change {
  std::uint64_t attempt = 0;  ///< number of the reload
  configuration_report configuration;
  std::string reload;                 ///< its name in messages to clients: "the reload of 2026-01-31 12:00:00 UTC"
  settings wanted;                    ///< only what can change at run time is applied
  std::vector<std::uint32_t> order;   ///< ids of all pipelines to be served, in the configuration's order
  std::vector<fresh_pipeline> fresh;  ///< those of them that are new or different
  std::vector<fresh_streams> streams;
  std::vector<changed_numbers> numbers;
};

}  // namespace penstock
