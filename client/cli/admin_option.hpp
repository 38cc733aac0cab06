#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "client/cli/admin_http.hpp"

namespace penstock::cli {

/// Where penstockd serves its admin HTTP unless its configuration says otherwise.
[[nodiscard]] admin_address default_admin_address();
/// As parse_admin_address reads it.
[[nodiscard]] std::string text_of(const admin_address& address);
/// Adds --admin, which PENSTOCK_ADMIN stands in for. `into` must live as long as `to`.
CLI::Option* add_admin_option(CLI::App& to, admin_address& into);

}  // namespace penstock::cli
