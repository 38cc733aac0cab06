#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// How one benchmark's result is shown. What measures is in main.cpp's table, under the same name.
struct section {
  const char* name;   ///< the "benchmark" of its JSON, and its name on the command line
  const char* title;  ///< above it on the page, before the device's name
  std::string (*tables)(const nlohmann::ordered_json& result);               ///< as Markdown
  std::vector<chart> (*charts)(const nlohmann::ordered_json& result);        ///< side by side in one drawing
  std::vector<aim> (*aims)(const nlohmann::ordered_json& result) = nullptr;  ///< that such a run speaks of
};

/// Every benchmark's, in the order of the page.
[[nodiscard]] const std::vector<section>& sections();
/// The one that shows this result. Throws std::runtime_error when no benchmark is called as it says.
[[nodiscard]] const section& section_of(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
