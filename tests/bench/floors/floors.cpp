#include "tests/bench/floors/floors.hpp"

#include <fmt/format.h>

namespace penstock::bench {

std::vector<std::string> below_floors(const std::map<std::string, double>& ratios,
                                      const nlohmann::ordered_json& floors) {
  using by_name = std::map<std::string, double>;
  const auto wanted = floors.at("floors").get<by_name>();
  const auto own_margins = floors.value("margins", by_name{});
  const auto common_margin = floors.at("margin").get<double>();
  std::vector<std::string> lines;
  for (const auto& [name, floor] : wanted) {
    const auto own = own_margins.find(name);
    const double margin = own != own_margins.end() ? own->second : common_margin;
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
  for (const auto& [name, margin] : own_margins) {
    if (wanted.count(name) == 0) {
      lines.push_back(fmt::format("{}: there is a margin of {:.0f} %, and no floor", name, 100 * margin));
    }
  }
  return lines;
}

}  // namespace penstock::bench
