#include "kernels/convolve.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/element_codec.hpp"
#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

/// A stage with its weights and its bias, as its .npy files hold them.
struct convolve_case {
  operation_case setup;
  std::vector<float> weights;
  std::vector<float> bias;

  void set_weights(std::vector<std::int64_t> extents, random_input& random) {
    std::size_t count = 1;
    for (const std::int64_t extent : extents) {
      count *= static_cast<std::size_t>(extent);
    }
    weights = random.normal(count);
    setup.settings.set("weights", number_file::of(std::move(extents), weights));
  }
  void set_bias(std::int64_t filters, random_input& random) {
    bias = random.normal(static_cast<std::size_t>(filters));
    setup.settings.set("bias", number_file::of({filters}, bias));
  }
};

double activate(convolution_activation activation, double x) {
  switch (activation) {
    case convolution_activation::relu:
      return std::max(x, 0.0);
    case convolution_activation::gelu:
      return x / 2.0 * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case convolution_activation::gelu_erf:
      return x / 2.0 * (1.0 + std::erf(x / std::sqrt(2.0)));
    case convolution_activation::none:
      break;
  }
  return x;
}

convolve_case of_input(std::vector<std::int64_t> extents) {
  return {
      .setup = {.op = "convolve", .settings = {}, .input = {.shape = std::move(extents)}}, .weights = {}, .bias = {}};
}

/// One sum in float64, by the definition; `corner` is where the filter's first number lies in x.
double sum_at(const convolution_shape& shape, const float* x, const float* weights,
              const convolution_shape::pair& corner) {
  double sum = 0.0;
  for (std::int64_t channel = 0; channel < shape.channels / shape.groups; ++channel) {
    for (std::int64_t tap_row = 0; tap_row < shape.filter_size[0]; ++tap_row) {
      const std::int64_t row = corner[0] + tap_row * shape.dilation[0];
      for (std::int64_t tap = 0; tap < shape.filter_size[1]; ++tap, ++weights) {
        const std::int64_t column = corner[1] + tap * shape.dilation[1];
        if (row >= 0 && row < shape.size[0] && column >= 0 && column < shape.size[1]) {
          sum += double{x[(channel * shape.size[0] + row) * shape.size[1] + column]} * double{*weights};
        }
      }
    }
  }
  return sum;
}

std::vector<double> convolved(const convolution_shape& shape, std::int64_t frames, const std::vector<float>& x,
                              const std::vector<float>& weights, const std::vector<float>& bias) {
  const convolution_shape::pair output = shape.output_size();
  const std::int64_t inner = shape.channels / shape.groups;
  std::vector<double> y;
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    for (std::int64_t filter = 0; filter < shape.filters; ++filter) {
      const std::int64_t channel = frame * shape.channels + filter / (shape.filters / shape.groups) * inner;
      const float* const plane = x.data() + channel * shape.size[0] * shape.size[1];
      const float* const taps = weights.data() + filter * inner * shape.filter_size[0] * shape.filter_size[1];
      const double shift = bias.empty() ? 0.0 : double{bias[static_cast<std::size_t>(filter)]};
      for (std::int64_t row = 0; row < output[0]; ++row) {
        for (std::int64_t column = 0; column < output[1]; ++column) {
          const convolution_shape::pair corner{row * shape.stride[0] - shape.padding[0],
                                               column * shape.stride[1] - shape.padding[1]};
          y.push_back(activate(shape.activation, sum_at(shape, plane, taps, corner) + shift));
        }
      }
    }
  }
  return y;
}

double largest(const std::vector<float>& numbers) {
  double most = 0.0;
  for (const float each : numbers) {
    most = std::max(most, std::abs(double{each}));
  }
  return most;
}

/// The bound of convolve.hpp, with what the rounding of the result adds.
void expect_convolved(const convolve_case& given, const std::vector<float>& x, const std::vector<float>& y,
                      double product_share, double result_share) {
  const convolve_settings parsed = parse_convolve(given.setup.settings, given.setup.input);
  const std::vector<double> expected = convolved(parsed.shape, given.setup.extent.frames, x, given.weights, given.bias);
  const double taps = static_cast<double>(parsed.shape.weight_elements()) / static_cast<double>(parsed.shape.filters);
  const double bound =
      product_share * std::sqrt(taps) * largest(x) * largest(given.weights) + result_share * largest(given.bias);
  ASSERT_EQ(y.size(), expected.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], expected[i], 1.13 * bound + result_share * std::abs(expected[i]))
        << given.setup.text() << " at " << i;
  }
}

class convolve_operation : public operation_test {
 protected:
  // A machine may lack oneDNN or cuDNN.
  void SetUp() override {
    operation_case setup{.op = "convolve", .settings = {}, .input = {.shape = {4}}};
    setup.settings.set("weights", npy_of({1, 1, 2}));
    try {
      static_cast<void>(run<float>(setup, std::vector<float>(4)));
    } catch (const std::exception& error) {
      if (std::string(error.what()).find("could not be loaded") == std::string::npos) {
        throw;
      }
      GTEST_SKIP() << error.what();
    }
  }

  void check(const convolve_case& given, random_input& random) {
    const std::vector<float> x = random.normal(values_in(given.setup.input, given.setup.extent));
    expect_convolved(given, x, run<float>(given.setup, x), 1e-6, 1e-6);
  }
};
PENSTOCK_ON_EACH_BACKEND(convolve_operation);

parameters::value list_of(double first, double second) {
  return std::vector<double>{first, second};
}

TEST_P(convolve_operation, SlidesFiltersOverOneAxis) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 14; ++round) {
    const std::int64_t groups = random.coin() ? 1 : random.integer(2, 4);
    const std::int64_t inner = random.integer(1, round % 4 == 0 ? 32 : 5);
    const std::int64_t filters = groups * random.integer(1, round % 4 == 1 ? 33 : 4);
    convolve_case given = of_input({groups * inner, random.integer(9, 90)});
    given.setup.extent.frames = random.integer(1, 19);
    given.setup.spare_frames = random.integer(0, 5);
    given.set_weights({filters, inner, random.integer(1, 5)}, random);
    if (random.coin()) {
      given.set_bias(filters, random);
    }
    given.setup.settings.set("groups", groups);
    given.setup.settings.set("stride", random.integer(1, 3));
    given.setup.settings.set("padding", random.integer(0, 4));
    given.setup.settings.set("dilation", random.integer(1, 2));
    check(given, random);
  }
}

TEST_P(convolve_operation, SlidesFiltersOverTwoAxes) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const std::vector<std::string> activations{"none", "relu", "gelu", "gelu_erf"};
  for (int round = 0; round < 14; ++round) {
    const std::int64_t groups = round % 3 == 0 ? random.integer(2, 8) : 1;
    const std::int64_t inner = random.integer(1, round % 4 == 0 ? 16 : 3);
    const std::int64_t filters = groups * random.integer(1, round % 4 == 1 ? 17 : 4);
    convolve_case given = of_input({groups * inner, random.integer(9, 25), random.integer(9, 25)});
    given.setup.extent.frames = random.integer(1, 9);
    given.setup.spare_frames = random.integer(0, 3);
    given.set_weights({filters, inner, random.integer(1, 4), random.integer(1, 4)}, random);
    if (random.coin()) {
      given.set_bias(filters, random);
    }
    given.setup.settings.set("groups", groups);
    given.setup.settings.set("stride", list_of(static_cast<double>(random.integer(1, 3)), 2.0));
    given.setup.settings.set("padding", list_of(1.0, static_cast<double>(random.integer(0, 3))));
    given.setup.settings.set("dilation", list_of(static_cast<double>(random.integer(1, 2)), 1.0));
    given.setup.settings.set("activation", activations[static_cast<std::size_t>(round) % activations.size()]);
    check(given, random);
  }
}

TEST_P(convolve_operation, TakesOneAndSixtyFourChannels) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t channels : {1, 64}) {
    for (const std::int64_t filters : {1, 64}) {
      convolve_case given = of_input({channels, 9, 11});
      given.setup.extent.frames = 3;
      given.set_weights({filters, channels, 3, 3}, random);
      given.set_bias(filters, random);
      given.setup.settings.set("padding", std::string{"same"});
      given.setup.settings.set("activation", std::string{"relu"});
      check(given, random);
      given.setup.input.shape = {channels, 81};
      given.set_weights({filters, channels, 8}, random);
      check(given, random);
    }
  }
}

TEST_P(convolve_operation, SlidesAlongTheFirstOfTwoAxes) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t groups : {1, 2}) {
    convolve_case given = of_input({groups * 3, random.integer(20, 40), 1});
    given.setup.extent.frames = random.integer(1, 5);
    given.set_weights({groups * 4, 3, 5, 1}, random);
    given.set_bias(groups * 4, random);
    given.setup.settings.set("groups", groups);
    given.setup.settings.set("stride", list_of(2.0, static_cast<double>(random.integer(1, 3))));
    given.setup.settings.set("padding", list_of(static_cast<double>(random.integer(0, 3)), 0.0));
    given.setup.settings.set("dilation", list_of(static_cast<double>(random.integer(1, 2)), 1.0));
    check(given, random);
  }
}

// A depthwise layer: each channel has filters of its own.
TEST_P(convolve_operation, ConvolvesEachChannelApart) {
  random_input random;
  SCOPED_TRACE(random.trace());
  convolve_case given = of_input({24, 15, 13});
  given.setup.extent.frames = 3;
  given.set_weights({48, 1, 3, 3}, random);
  given.setup.settings.set("groups", std::int64_t{24});
  check(given, random);
}

// These shapes have layouts in memory that differ in nothing but in the strides of axes with one element.
TEST_P(convolve_operation, TakesOneChannelOfOneRow) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t taps : {1, 2, 5}) {
    for (const std::int64_t stride : {1, 2}) {
      convolve_case given = of_input({random.integer(5, 40)});
      given.setup.extent.frames = random.integer(1, 5);
      given.set_weights({1, 1, taps}, random);
      given.setup.settings.set("stride", stride);
      given.setup.settings.set("padding", random.integer(0, 2));
      check(given, random);
    }
  }
}

TEST_P(convolve_operation, RoundsFactorsToWhatComputeSays) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const std::vector<std::pair<std::string, double>> shares{{"tf32", 4e-3}, {"f16", 4e-3}, {"bf16", 1e-2}};
  for (const auto& [compute, share] : shares) {
    convolve_case given = of_input({16, 40});
    given.setup.extent.frames = 5;
    given.set_weights({24, 16, 3}, random);
    given.set_bias(24, random);
    given.setup.settings.set("compute", compute);
    const std::vector<float> x = random.normal(values_in(given.setup.input, given.setup.extent));
    expect_convolved(given, x, run<float>(given.setup, x), share, share);
  }
}

TEST_P(convolve_operation, TakesAndGivesNumbersOfSixteenBits) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f16, element_type::bf16}) {
    convolve_case given = of_input({3, 30});
    given.setup.input.type = type;
    given.setup.extent.frames = 11;
    given.set_weights({5, 3, 3}, random);
    given.setup.settings.set("compute", std::string{name_of(type)});
    const element_codec codec(type);
    std::vector<std::uint16_t> bits;
    std::vector<float> x;
    for (const float each : random.normal(values_in(given.setup.input, given.setup.extent))) {
      bits.push_back(static_cast<std::uint16_t>(codec.encode(static_cast<long double>(each))));
      x.push_back(static_cast<float>(codec.decode(bits.back())));
    }
    std::vector<float> y;
    for (const std::uint16_t each : run<std::uint16_t>(given.setup, bits)) {
      y.push_back(static_cast<float>(codec.decode(each)));
    }
    expect_convolved(given, x, y, 1e-2, 4e-3);
  }
}

TEST_P(convolve_operation, KeepsWhatIsNotFiniteInItsFrame) {
  random_input random;
  SCOPED_TRACE(random.trace());
  convolve_case given = of_input({2, 32});
  given.setup.extent.frames = 5;
  given.set_weights({3, 2, 3}, random);
  std::vector<float> x = random.normal(values_in(given.setup.input, given.setup.extent));
  const std::vector<float> clean = run<float>(given.setup, x);
  x[2 * 64 + 7] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = run<float>(given.setup, x);
  EXPECT_TRUE(std::isnan(y[2 * 90 + 6]));
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (i / 90 != 2) {
      // The two operations may have chosen different algorithms.
      ASSERT_NEAR(y[i], clean[i], 1e-5) << i;
    }
  }
}

// As in torch; max(y, 0) of a NaN is 0 in some libraries, and in cuDNN.
TEST_P(convolve_operation, KeepsNanThroughEachActivation) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::string activation : {"relu", "gelu", "gelu_erf"}) {
    if (GetParam() == "cuda" && activation == "relu") {
      continue;
    }
    for (const std::int64_t channels : {1, 16}) {
      for (const std::int64_t samples : {32, 2050}) {
        convolve_case given = of_input({channels, samples});
        given.setup.extent.frames = 2;
        given.set_weights({16, channels, 3}, random);
        given.set_bias(16, random);
        given.setup.settings.set("activation", activation);
        std::vector<float> x = random.normal(values_in(given.setup.input, given.setup.extent));
        x[7] = std::numeric_limits<float>::quiet_NaN();
        const std::vector<float> y = run<float>(given.setup, x);
        const auto results = static_cast<std::size_t>(samples - 2);
        for (std::size_t filter = 0; filter < 16; ++filter) {
          ASSERT_TRUE(std::isnan(y[filter * results + 6])) << activation << " of " << channels << " channels";
        }
        x.erase(x.begin(), x.begin() + channels * samples);
        given.setup.extent.frames = 1;
        expect_convolved(given, x, {y.begin() + static_cast<std::ptrdiff_t>(16 * results), y.end()}, 1e-6, 1e-3);
      }
    }
  }
}

// ReLU of the host comes from oneDNN only for numbers from which no NaN can arise.
TEST_P(convolve_operation, RectifiesWhatOverflows) {
  if (GetParam() != "host") {
    GTEST_SKIP() << "cuDNN may spread an infinity over its frame";
  }
  constexpr float infinity = std::numeric_limits<float>::infinity();
  convolve_case given = of_input({1, 2050});
  given.weights = {1.0F, -2.0F, 0.5F, 2.0F};
  given.setup.settings.set("weights", number_file::of({4, 1, 1}, given.weights));
  given.setup.settings.set("activation", std::string{"relu"});
  for (const float far : {infinity, -infinity, 2e38F, -3e38F}) {
    std::vector<float> x(2050, 1.0F);
    x[1024] = far;
    const std::vector<float> y = run<float>(given.setup, x);
    for (std::size_t filter = 0; filter < 4; ++filter) {
      ASSERT_EQ(y[filter * 2050 + 1024], std::max(far * given.weights[filter], 0.0F)) << far << " of " << filter;
      ASSERT_EQ(y[filter * 2050 + 1023], std::max(given.weights[filter], 0.0F)) << far << " of " << filter;
    }
  }
}

TEST(Convolve, LeavesTheAxisOfOneFilterAwayWhereTheInputHasNoneOfChannels) {
  const auto output = [](std::vector<std::int64_t> weights, std::vector<std::int64_t> input) {
    const parameters settings = settings_of({{"weights", npy_of(weights)}});
    return parse_convolve(settings, {.shape = std::move(input)}).output.shape;
  };
  using shape = std::vector<std::int64_t>;
  EXPECT_EQ(output({1, 1, 3}, {10}), shape({8}));
  EXPECT_EQ(output({1, 1, 3}, {1, 10}), shape({1, 8}));
  EXPECT_EQ(output({4, 1, 3}, {10}), shape({4, 8}));
  EXPECT_EQ(output({1, 1, 3, 5}, {10, 12}), shape({8, 8}));
  EXPECT_EQ(output({4, 2, 3, 5}, {2, 10, 12}), shape({4, 8, 8}));
}

TEST(Convolve, RefusesWhatDoesNotFit) {
  const auto refuse = [](const entries& given, const std::vector<std::int64_t>& weights, const tensor_spec& input,
                         std::string_view field, const std::string& message) {
    parameters settings = settings_of(given);
    settings.set("weights", npy_of(weights));
    expect_refused("convolve", settings, {input}, field, message);
  };
  const tensor_spec sound{.shape = {2, 100}};
  expect_refused("convolve", {}, {sound}, "weights", "is missing");
  refuse({}, {4, 2}, sound, "weights", "[K, C, S]");
  refuse({}, {4, 3, 5}, sound, "weights", "must have 2 channels (its second extent) for an input of f32[2, 100], not");
  refuse({{"groups", std::int64_t{2}}}, {4, 2, 5}, sound, "weights", "must have 1 channel (its second extent) for an");
  refuse({}, {4, 2, 101}, sound, "weights", "do not fit");
  refuse({}, {4, 2, 5}, {.shape = {2, 100}, .variable = true}, "from", "fixed size");
  refuse({}, {4, 2, 5}, {.shape = {2, 3, 100}}, "from", "[L] or [C, L]");
  refuse({}, {4, 2, 5}, {.type = element_type::cf32, .shape = {2, 100}}, "from", "f32");
  refuse({{"groups", std::int64_t{3}}}, {4, 2, 5}, sound, "groups", "must divide");
  refuse({{"stride", std::int64_t{0}}}, {4, 2, 5}, sound, "stride", "from 1");
  refuse({{"stride", std::vector<double>{1.0, 1.0}}}, {4, 2, 5}, sound, "stride", "list of 1");
  refuse({{"dilation", std::vector<double>{1.5}}}, {4, 2, 5}, sound, "dilation", "whole number");
  refuse({{"padding", std::string{"full"}}}, {4, 2, 5}, sound, "padding", "\"same\"");
  refuse({{"padding", std::string{"same"}}, {"stride", std::int64_t{2}}}, {4, 2, 5}, sound, "padding", "stride 1");
  refuse({{"bias", npy_of({3})}}, {4, 2, 5}, sound, "bias", "must be [4]");
  refuse({{"activation", std::string{"tanh"}}}, {4, 2, 5}, sound, "activation", "relu");
}

}  // namespace
}  // namespace penstock
