#include "tests/bench/chart_line.hpp"

#include "tests/bench/statistics.hpp"

namespace penstock::bench {

chart_line line_of(const std::string& name, const nlohmann::ordered_json& rows, const char* x, const std::string& y,
                   double scale) {
  chart_line line{name, {}, {}, {}, {}};
  const nlohmann::ordered_json::json_pointer place(y);
  for (const nlohmann::ordered_json& row : rows) {
    if (!row.contains(place)) {
      continue;
    }
    const spread of = spread_from(row.at(place));
    line.x.push_back(row.at(x).get<double>());
    line.y.push_back(of.median * scale);
    line.least.push_back(of.least * scale);
    line.most.push_back(of.most * scale);
  }
  return line;
}

}  // namespace penstock::bench
