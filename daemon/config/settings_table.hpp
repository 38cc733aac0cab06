#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/setting.hpp"
#include "daemon/config/settings.hpp"

namespace penstock {

/// A table of the configuration file.
struct settings_section {
  std::string_view name;  ///< "daemon"
  std::string_view help;  ///< "" where its settings say all
  std::vector<setting<settings>> rows;
};

/// Every table except [[pipeline]], in the order in which they are read and printed. CONTRIBUTING.md (Style) lists what
/// a new setting needs. `penstockd --print-settings` prints the text for deploy/config/penstock.toml, and with
/// `--format man` that for deploy/man/penstock.toml.5.
[[nodiscard]] const std::vector<settings_section>& settings_table();

/// Refuses [admin] addresses that other machines can reach, and those that are none. `table` is the file's [admin].
/// Throws configuration_error.
void check_admin(const table_reader& table, const admin_settings& admin);

/// What is wrong with an endpoint, for an error.
[[nodiscard]] std::string endpoint_complaint(const std::string& endpoint, const std::string& fault);

}  // namespace penstock
