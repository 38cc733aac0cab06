#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/control.hpp"

namespace penstock::link {

/// Where a client that reached the daemon at `url` should go instead: the endpoint of the shard that `welcome` names.
/// nullopt when it is where it should be, or when the shard has no endpoint that it could use.
[[nodiscard]] std::optional<std::string> better_endpoint(const wire::welcome& welcome, std::string_view url);

/// By shard, where a client that reached the daemon at `url` would find it; "" for one without an endpoint that it
/// could use. Empty when the welcome names no shards.
[[nodiscard]] std::vector<std::string> endpoints_of_all(const wire::welcome& welcome, std::string_view url);

}  // namespace penstock::link
