#include "tests/bench/floors/floors.hpp"

#include <fmt/format.h>

namespace penstock::bench {

std::vector<std::string> below_floors(const std::map<std::string, double>& ratios,
                                      const nlohmann::ordered_json& floors) {
  const auto margin = floors.at("margin").get<double>();
  const auto wanted = floors.at("floors").get<std::map<std::string, double>>();
  std::vector<std::string> lines;
  for (const auto& [name, floor] : wanted) {
    const auto found = ratios.find(name);
    if (found == ratios.end()) {
      lines.push_back(fmt::format("{}: there is a floor, and nothing that measures it", name));
    } else if (!(found->second >= floor * (1 - margin))) {
      lines.push_back(fmt::format("{}: {:.3f} is below its floor of {:.3f} less {:.0f} %", name, found->second, floor,
                                  100 * margin));
    }
  }
  for (const auto& [name, ratio] : ratios) {
    if (wanted.count(name) == 0) {
      lines.push_back(fmt::format("{}: {:.3f} has no floor", name, ratio));
    }
  }
  return lines;
}

}  // namespace penstock::bench
