#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/finding.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/doctor/facts.hpp"

namespace penstock {

/// "33.4 MiB", "no limit" for facts.hpp's no_limit.
[[nodiscard]] std::string amount_text(std::uint64_t bytes);
/// "1 shard", "4 shards".
[[nodiscard]] std::string counted(std::uint64_t count, const std::string& noun);

// Each judges facts, and looks at nothing else.

[[nodiscard]] finding check_configuration(const configuration_facts& configuration);
[[nodiscard]] finding check_keys(const key_facts& keys);
[[nodiscard]] finding check_device(const opened_facts& device, const driver_facts& driver);
[[nodiscard]] finding check_driver(const opened_facts& device, const driver_facts& driver);
[[nodiscard]] finding check_priorities(const opened_facts& device, const load_facts& load);
[[nodiscard]] finding check_device_memory(const opened_facts& device, const memory_facts& memory);
[[nodiscard]] finding check_pinned_memory(const memory_facts& memory);
[[nodiscard]] finding check_locked_memory(const opened_facts& device, const memory_facts& memory,
                                          const limit_facts& limits);
[[nodiscard]] finding check_open_files(const load_facts& load, const limit_facts& limits);
[[nodiscard]] finding check_processors(const load_facts& load);
[[nodiscard]] finding check_endpoint(const endpoint_facts& endpoint);
[[nodiscard]] finding check_source(const source_facts& source);
[[nodiscard]] finding check_sink(const source_facts& sink);
[[nodiscard]] finding check_shared_memory(const shared_memory_facts& memory);
[[nodiscard]] finding check_clock(const std::string& source);
/// Of a unit that is installed.
[[nodiscard]] finding check_unit(const unit_facts& unit, const opened_facts& device,
                                 const std::optional<memory_facts>& memory, const load_facts& load);

/// All that these facts allow.
[[nodiscard]] std::vector<finding> check_all(const doctor_facts& facts);

/// Looks at this machine and at the configuration as a daemon that starts here and now would. `read` gives the
/// configuration of the file `name`, or throws configuration_error.
[[nodiscard]] std::vector<finding> examine(const std::string& name, const std::function<settings()>& read);

}  // namespace penstock
