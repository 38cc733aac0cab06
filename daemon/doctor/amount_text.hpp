#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// "33.4 MiB", "no limit" for facts.hpp's no_limit.
[[nodiscard]] std::string amount_text(std::uint64_t bytes);
/// "1 shard", "4 shards".
[[nodiscard]] std::string counted(std::uint64_t count, const std::string& noun);

}  // namespace penstock
