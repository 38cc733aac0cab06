#pragma once

#include <string>

#include "daemon/config/settings.hpp"

namespace penstock {

/// The message of the configuration_error that parse_settings throws; "no complaint" when it throws none.
inline std::string complaint_about(const std::string& text) {
  try {
    (void)parse_settings(text, "penstock.toml");
  } catch (const configuration_error& error) {
    return error.what();
  }
  return "no complaint";
}

/// Text that has one good pipeline on its last lines.
inline std::string with_pipeline(const std::string& before) {
  return before +
         "\n[[pipeline]]\nname = 'p'\ninput = { dtype = 'f32', shape = [16] }\n"
         "[[pipeline.stage]]\nname = 's'\nop = 'moments'\n";
}

/// A whole file: line 1 is the version, line 2 the table, line 3 what is given.
inline std::string in_table(const std::string& table, const std::string& line) {
  return with_pipeline("config_version = 1\n[" + table + "]\n" + line);
}

}  // namespace penstock
