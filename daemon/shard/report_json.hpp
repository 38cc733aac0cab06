#pragma once

#include <nlohmann/json.hpp>

#include "daemon/shard/shard_report.hpp"

namespace penstock {

/// The pieces of a shard's report that STATUS and the HTTP API say in the same words; proto/PROTOCOL.md describes them.
[[nodiscard]] nlohmann::ordered_json json_of(const outcome_account& requests);
/// What a pipeline has counted: its name, requests, frames, batches and why they were closed.
[[nodiscard]] nlohmann::ordered_json json_of(const pipeline_report& pipeline);
/// Quantiles, the largest and the sum in µs of each time that was measured at least once.
[[nodiscard]] nlohmann::ordered_json json_of(const pipeline_timing& timing);
/// Handshakes that were refused, by why.
[[nodiscard]] nlohmann::ordered_json refused_json(const handshake_report& of);
/// Messages that were refused, by the status they were answered with.
[[nodiscard]] nlohmann::ordered_json refused_json(const account& of);

}  // namespace penstock
