#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "client/cli/admin_http.hpp"

namespace penstock::cli {

/// Where penstockd serves its admin HTTP unless its configuration says otherwise.
[[nodiscard]] admin_address default_admin_address();
/// As parse_admin_address reads it.
[[nodiscard]] std::string text_of(const admin_address& address);
/// Adds --admin, which PENSTOCK_ADMIN stands in for. `into` must live as long as `to`.
CLI::Option* add_admin_option(CLI::App& to, std::optional<admin_address>& into);

/// Of the addresses in a STATUS, the one for who reached the daemon at `url`. Throws std::runtime_error.
[[nodiscard]] admin_address choose_admin_address(const std::string& status, const std::string& url);

}  // namespace penstock::cli
