#pragma once

#include <vector>

#include "daemon/doctor/facts.hpp"
#include "proto/findings/finding.hpp"

namespace penstock {

// Each judges facts, and looks at nothing else.

[[nodiscard]] finding check_configuration(const configuration_facts& given);
[[nodiscard]] finding check_keys(const key_facts& given);
[[nodiscard]] finding check_device(const opened_facts& given, const driver_facts& driver);
[[nodiscard]] finding check_driver(const opened_facts& device, const driver_facts& given);
[[nodiscard]] finding check_priorities(const opened_facts& device, const load_facts& load);
[[nodiscard]] finding check_device_memory(const opened_facts& device, const memory_facts& given);
[[nodiscard]] finding check_pinned_memory(const memory_facts& given);
[[nodiscard]] finding check_locked_memory(const opened_facts& device, const memory_facts& memory,
                                          const limit_facts& limits);
[[nodiscard]] finding check_open_files(const load_facts& load, const limit_facts& limits);
[[nodiscard]] finding check_processors(const load_facts& given);
[[nodiscard]] finding check_endpoint(const endpoint_facts& given);
[[nodiscard]] finding check_shared_memory(const shared_memory_facts& given);
[[nodiscard]] finding check_clock(const std::string& source);
/// Of a unit that is installed.
[[nodiscard]] finding check_unit(const unit_facts& given, const opened_facts& device,
                                 const std::optional<memory_facts>& memory, const load_facts& load);

/// All that these facts allow.
[[nodiscard]] std::vector<finding> check_all(const doctor_facts& facts);

}  // namespace penstock
