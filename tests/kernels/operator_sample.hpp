#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/number_file.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// Parameters by their keys.
using entries = std::vector<std::pair<const char*, parameters::value>>;
[[nodiscard]] inline parameters settings_of(const entries& given) {
  parameters settings;
  for (const auto& [key, value] : given) {
    settings.set(key, value);
  }
  return settings;
}

/// Expects an error on that field, with a text that contains the message.
inline void expect_refused(std::string_view op, const parameters& settings, const std::vector<tensor_spec>& inputs,
                           std::string_view field, const std::string& message) {
  try {
    const tensor_spec output = find_operator(op)->infer(settings, inputs);
    ADD_FAILURE() << op << " made " << output.text() << "; wanted: " << message;
  } catch (const parameter_error& error) {
    EXPECT_EQ(error.field, field) << op << ": " << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(message)) << op;
  }
}

/// How the tests over the whole catalogue make an operator: with its required parameters only.
struct operator_sample {
  parameters settings;
  element_type type = element_type::cf32;
  std::size_t inputs = 1;  ///< all of one spec
  bool sole_input = true;  ///< it takes exactly one input
};

/// The numbers of a .npy file: between -1 and 1, none like its neighbours.
[[nodiscard]] inline parameters::value npy_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    count *= extent;
  }
  std::vector<float> numbers;
  for (std::int64_t at = 0; at < count; ++at) {
    numbers.push_back(static_cast<float>(at * 37 % 101) / 50.0F - 1.0F);
  }
  return number_file::of(shape, numbers);
}

/// An operator that is not named here needs no parameters and takes one input of cf32. `length` is the extent of the
/// input's last axis.
[[nodiscard]] inline operator_sample sample_of(std::string_view op, std::int64_t length = 8) {
  using list = std::vector<double>;
  const std::map<std::string_view, operator_sample> named{
      {"accumulate", {settings_of({{"frames", std::int64_t{3}}}), element_type::f32}},
      {"add", {{}, element_type::cf32, 2, false}},
      {"bch",
       {settings_of(
            {{"generator", std::int64_t{3}}, {"errors", std::int64_t{0}}, {"length", length > 63 ? 50 : length}}),
        element_type::f32}},
      {"channelize", {settings_of({{"channels", std::int64_t{2}}, {"hop", std::int64_t{1}}})}},
      {"clock", {settings_of({{"omega", 2.0}}), element_type::f32}},
      {"concat", {{}, element_type::cf32, 2, false}},
      {"convolve", {settings_of({{"weights", npy_of({2, 1, 1, 3})}}), element_type::f32}},
      {"correlate", {settings_of({{"template", list{1.0, 0.5}}}), element_type::cf32, 1, false}},
      {"demodulate", {settings_of({{"kind", std::string("pm")}})}},
      {"detect", {settings_of({{"high", 0.5}}), element_type::f32}},
      {"fir", {settings_of({{"taps", list{1.0, 0.5}}})}},
      {"frame_sync", {settings_of({{"word", std::string("0b1")}, {"length", std::int64_t{3}}}), element_type::f32}},
      {"iir", {settings_of({{"sections", list{1.0, 0.5, 0.0, 1.0, 0.5, 0.0}}})}},
      {"matmul", {settings_of({{"weights", npy_of({length, 3})}, {"repeatable", true}}), element_type::f32}},
      {"mel", {settings_of({{"rate", 8000.0}}), element_type::f32}},
      {"mix", {settings_of({{"frequency", 0.1}})}},
      {"moving_zscore", {settings_of({{"window", std::int64_t{2}}}), element_type::f32}},
      {"multiply", {{}, element_type::cf32, 2, false}},
      {"reframe", {settings_of({{"length", std::int64_t{1}}})}},
      {"resample", {settings_of({{"up", std::int64_t{3}}})}},
      {"stft", {settings_of({{"length", std::int64_t{1}}, {"window", std::string{"rectangular"}}})}},
      {"top", {{}, element_type::f32}},
      {"unpack", {settings_of({{"format", std::string{"u16"}}}), element_type::u8}},
  };
  const auto found = named.find(op);
  return found == named.end() ? operator_sample{} : found->second;
}

}  // namespace penstock
