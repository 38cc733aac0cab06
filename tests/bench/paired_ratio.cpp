#include "tests/bench/paired_ratio.hpp"

#include <vector>

#include <fmt/format.h>

#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

bool has_turns(const ordered_json& contender, const char* key) {
  return contender.contains("turns") && contender.at("turns").contains(key) && !contender.at("turns").at(key).empty();
}

std::vector<double> turns_of(const ordered_json& contender, const char* key) {
  return contender.at("turns").at(key).get<std::vector<double>>();
}

// How many times as good, by the medians alone.
double ratio_of_medians(const ordered_json& row, const char* who, const char* other, const compared_figure& by) {
  const double times = median_of(row.at(who), by.key) / median_of(row.at(other), by.key);
  return by.less_is_better ? 1 / times : times;
}

double longer(double times) {
  return 100 * (1 / times - 1);
}

}  // namespace

paired_ratio ratio_between(const ordered_json& row, const char* who, const char* other, const compared_figure& by) {
  const ordered_json& above = row.at(by.less_is_better ? other : who);
  const ordered_json& below = row.at(by.less_is_better ? who : other);
  if (has_turns(above, by.key) && has_turns(below, by.key)) {
    return {spread_of(ratios(turns_of(above, by.key), turns_of(below, by.key))), true};
  }
  const double times = ratio_of_medians(row, who, other, by);
  return {{times, times, times}, false};
}

const char* best_of(const ordered_json& row, std::initializer_list<const char*> names, const compared_figure& by) {
  const char* best = nullptr;
  for (const char* const each : names) {
    if (row.contains(each) && (best == nullptr || ratio_of_medians(row, each, best, by) > 1)) {
      best = each;
    }
  }
  return best;
}

std::string paired_ratio::times_text(int decimals) const {
  return by_turns ? figure_text(to_json(times), "times", 1, decimals)
                  : fmt::format("{:.{}f} times", times.median, decimals);
}

std::string paired_ratio::share_text() const {
  return by_turns ? figure_text(to_json(times), "%", 100) : fmt::format("{:.0f} %", 100 * times.median);
}

std::string paired_ratio::longer_text() const {
  const std::string middle = fmt::format("{:+.0f} %", longer(times.median));
  return by_turns ? fmt::format("{} ({:.0f} to {:.0f})", middle, longer(times.most), longer(times.least)) : middle;
}

}  // namespace penstock::bench
