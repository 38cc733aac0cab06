#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proto/control.hpp"

namespace penstock::link {

/// Where a client that reached the daemon at `url` should go instead: the endpoint of the shard that `welcome` names.
/// nullopt when it is where it should be, or when the shard has no endpoint that it could use.
[[nodiscard]] std::optional<std::string> better_endpoint(const wire::welcome& welcome, std::string_view url);

}  // namespace penstock::link
