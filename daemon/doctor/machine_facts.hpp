#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/doctor/facts.hpp"

namespace penstock {

// Read from this machine, for this process. What can't be read is left as it is when nothing is known.

[[nodiscard]] driver_facts read_driver();
[[nodiscard]] limit_facts read_limits();
[[nodiscard]] shared_memory_facts read_shared_memory();
[[nodiscard]] std::string read_clock_source();
/// Of penstockd.service and its drop-ins, wherever systemd would look first.
[[nodiscard]] unit_facts read_unit();

/// The limits that a unit's text sets; those that it does not set stay as they are in `into`.
void add_unit_limits(std::string_view text, unit_facts& into);
/// "infinity", "8M", "1024", "4G:infinity" (the soft one counts); nullopt when it is none of these.
[[nodiscard]] std::optional<std::uint64_t> parse_unit_limit(std::string_view text);

}  // namespace penstock
