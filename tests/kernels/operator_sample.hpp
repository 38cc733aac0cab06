#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "kernels/operation.hpp"

namespace penstock {

/// What the tests over the whole catalogue make an operator with: no more parameters than it must have.
struct operator_sample {
  parameters settings;
  element_type type = element_type::cf32;
  std::size_t inputs = 1;  ///< all of one spec
  bool sole_input = true;  ///< whether it takes no other number of inputs
};

/// An operator that is not named here does with no parameters and one input of cf32.
[[nodiscard]] inline operator_sample sample_of(std::string_view op) {
  using list = std::vector<double>;
  const auto with = [](const char* key, parameters::value what) {
    parameters settings;
    settings.set(key, std::move(what));
    return settings;
  };
  const std::map<std::string_view, operator_sample> named{
      {"accumulate", {with("frames", std::int64_t{3}), element_type::f32}},
      {"add", {{}, element_type::cf32, 2, false}},
      {"concat", {{}, element_type::cf32, 2, false}},
      {"correlate", {with("template", list{1.0, 0.5}), element_type::cf32, 1, false}},
      {"detect", {with("high", 0.5), element_type::f32}},
      {"fir", {with("taps", list{1.0, 0.5})}},
      {"iir", {with("sections", list{1.0, 0.5, 0.0, 1.0, 0.5, 0.0})}},
      {"moving_zscore", {with("window", std::int64_t{2}), element_type::f32}},
      {"multiply", {{}, element_type::cf32, 2, false}},
      {"reframe", {with("length", std::int64_t{1})}},
  };
  const auto found = named.find(op);
  return found == named.end() ? operator_sample{} : found->second;
}

}  // namespace penstock
