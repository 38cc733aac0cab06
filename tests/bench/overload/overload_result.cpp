#include "tests/bench/overload/overload_result.hpp"

namespace penstock::bench {

using nlohmann::ordered_json;

ordered_json overload_cases_of(const ordered_json& result) {
  if (result.contains("cases")) {
    return result.at("cases");
  }
  return ordered_json::array({{{"name", "compute"},
                               {"clients", result.at("clients")},
                               {"capacity_per_second", result.at("capacity_per_second")},
                               {"rows", result.at("rows")}}});
}

double times_capacity_of(const ordered_json& result, const ordered_json& of_case, const ordered_json& row) {
  return row.at("sent").get<double>() / result.at("seconds").get<double>() /
         of_case.at("capacity_per_second").get<double>();
}

}  // namespace penstock::bench
