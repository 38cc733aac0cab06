#pragma once

#include <initializer_list>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {

/// What contenders of a row are held against each other by.
struct compared_figure {
  const char* key;  ///< of a contender in race::figures, and of its "turns"
  bool less_is_better;
};
inline constexpr compared_figure throughput_figure{"requests_per_second", false};
inline constexpr compared_figure latency_figure{"latency_p50_us", true};

/// How many times as good one contender of a row was as another: above 1 is better, whichever way the figure goes.
struct paired_ratio {
  spread times;
  bool by_turns = false;  ///< of the turns' own ratios; else of the two medians, without ends

  /// "1.25 times (1.10–1.31)"; without ends "1.25 times".
  [[nodiscard]] std::string times_text(int decimals) const;
  /// "80 % (76–92)"; without ends "80 %".
  [[nodiscard]] std::string share_text() const;
  /// How much longer it takes: "+25 % (-3 to 40)"; without ends "+25 %".
  [[nodiscard]] std::string longer_text() const;
};

/// Turn by turn where race::figures has kept the turns of both, as results from before that have not.
[[nodiscard]] paired_ratio ratio_between(const nlohmann::ordered_json& row, const char* who, const char* other,
                                         const compared_figure& by);
/// Of those contenders that the row has, the one with the best median; nullptr when it has none.
[[nodiscard]] const char* best_of(const nlohmann::ordered_json& row, std::initializer_list<const char*> names,
                                  const compared_figure& by);

}  // namespace penstock::bench
