#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

struct clock_design {
  double omega;
  const char* detector;
  double gain_mu = 0.175;
  double limit = 0.005;
  double mu = 0.5;
};

/// The cubic through four values at -1, 0, 1 and 2, by Lagrange's formula.
double lagrange(const double (&y)[4], double t) {
  const double at[4] = {-1.0, 0.0, 1.0, 2.0};
  double sum = 0.0;
  for (int i = 0; i < 4; ++i) {
    double weight = 1.0;
    for (int j = 0; j < 4; ++j) {
      weight *= i == j ? 1.0 : (t - at[j]) / (at[i] - at[j]);
    }
    sum += y[i] * weight;
  }
  return sum;
}

/// The symbols of one channel over the whole signal.
std::vector<double> recovered(const std::vector<double>& x, const clock_design& design) {
  const auto count = static_cast<std::int64_t>(x.size());
  const auto value_at = [&](double time) {
    const auto step = static_cast<std::int64_t>(std::floor(time));
    double y[4];
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t place = step - 1 + i;
      y[i] = place < 0 ? 0.0 : x[static_cast<std::size_t>(place)];
    }
    return lagrange(y, time - static_cast<double>(step));
  };
  const auto sign = [](double value) { return value > 0.0 ? 1.0 : -1.0; };
  std::vector<double> symbols;
  double time = design.mu;
  double omega = design.omega;
  double last = 0.0;
  while (static_cast<std::int64_t>(std::floor(time)) + 2 < count) {
    const double symbol = value_at(time);
    double error = std::string(design.detector) == "gardner" ? (last - symbol) * value_at(time - omega / 2)
                                                             : sign(last) * symbol - sign(symbol) * last;
    error = std::isfinite(error) ? error : 0.0;
    symbols.push_back(symbol);
    last = symbol;
    omega = std::clamp(omega + design.gain_mu * design.gain_mu / 4 * error, design.omega * (1 - design.limit),
                       design.omega * (1 + design.limit));
    time += omega + std::clamp(design.gain_mu * error, -omega / 2, omega / 2);
  }
  return symbols;
}

class clock_operation : public session_test {
 protected:
  session_case make(const clock_design& design, std::int64_t longest, std::int64_t channels,
                    const char* output = "symbols") {
    session_case setup{.op = "clock",
                       .settings = settings_of({{"omega", design.omega},
                                                {"detector", std::string(design.detector)},
                                                {"gain_mu", design.gain_mu},
                                                {"limit", design.limit},
                                                {"mu", design.mu},
                                                {"output", std::string(output)}}),
                       .input = {.type = element_type::f32, .shape = {longest, channels}, .variable = true},
                       .seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30))};
    setup.least_steps = random_.integer(0, 1);
    return setup;
  }

  /// Bits as pulses of `period` steps with smooth edges, and some noise.
  std::vector<float> pulses(const std::vector<int>& bits, double period, double noise) {
    const auto steps = static_cast<std::size_t>(period * static_cast<double>(bits.size()));
    std::vector<float> x = random_.normal(steps, 0.0, noise);
    for (std::size_t step = 0; step < steps; ++step) {
      const double place = static_cast<double>(step) / period;
      const auto bit = std::min(static_cast<std::size_t>(place), bits.size() - 1);
      const double within = place - static_cast<double>(bit);
      const auto level = [&](std::size_t at) { return bits[at] != 0 ? 1.0 : -1.0; };
      const std::size_t before = bit == 0 ? 0 : bit - 1;
      const double blend = std::min(within * 4.0, 1.0);
      x[step] += static_cast<float>(level(before) + (level(bit) - level(before)) * blend * blend * (3.0 - 2.0 * blend));
    }
    return x;
  }

  std::vector<int> random_bits(std::size_t count) {
    std::vector<int> bits(count);
    for (int& bit : bits) {
      bit = random_.coin() ? 1 : 0;
    }
    return bits;
  }

  /// What the blocks of a session hold of one channel: each begins with its count, and ends with zeros.
  static std::vector<float> joined(const std::vector<float>& blocks, std::int64_t length, std::int64_t channels,
                                   std::int64_t channel) {
    std::vector<float> values;
    for (std::size_t at = static_cast<std::size_t>(channel * length); at < blocks.size();
         at += static_cast<std::size_t>(channels * length)) {
      const auto count = static_cast<std::int64_t>(blocks[at]);
      EXPECT_TRUE(count >= 0 && count < length) << count;
      const auto first = blocks.begin() + static_cast<std::ptrdiff_t>(at) + 1;
      values.insert(values.end(), first, first + count);
      EXPECT_TRUE(std::all_of(first + count, first + length - 1, [](float value) { return value == 0.0F; }));
    }
    return values;
  }

  /// Random bits on each channel, of a sender that is slower by 0.2 %.
  std::vector<float> signal(const clock_design& design, std::int64_t channels, std::size_t bits) {
    std::vector<std::vector<float>> each;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      each.push_back(pulses(random_bits(bits), design.omega * 1.002, 0.05));
    }
    std::vector<float> x;
    for (std::size_t step = 0; step < each[0].size(); ++step) {
      for (const std::vector<float>& lane : each) {
        x.push_back(lane[step]);
      }
    }
    return x;
  }

  void expect_recovered(const session_case& setup, const clock_design& design,
                        const std::vector<std::vector<float>>& signals) {
    const std::int64_t channels = setup.input.shape.back();
    const auto got = run<float>(setup, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        std::vector<double> x;
        for (std::size_t at = static_cast<std::size_t>(channel); at < signals[session].size();
             at += static_cast<std::size_t>(channels)) {
          x.push_back(static_cast<double>(signals[session][at]));
        }
        ASSERT_NO_FATAL_FAILURE(expect_close(joined(got[session], setup.output().shape.back(), channels, channel),
                                             recovered(x, design), 1e-5, setup.text()))
            << design.omega << ", " << design.detector;
      }
    }
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(clock_operation);

TEST_P(clock_operation, GivesWhatTheWholeSignalGivesHoweverItIsCut) {
  SCOPED_TRACE(random_.trace());
  for (const clock_design& design : {clock_design{8.0, "mueller-muller"}, clock_design{8.0, "gardner"},
                                     clock_design{2.0, "mueller-muller", 0.05, 0.1},
                                     clock_design{20.83, "gardner", 0.3, 0.02, 0.0}, clock_design{1.5, "gardner"}}) {
    for (const std::int64_t channels : {1, 3, 64}) {
      const session_case setup = make(design, random_.coin() ? 20 : 700, channels);
      const std::size_t longest = channels == 64 ? 50 : 500;
      ASSERT_NO_FATAL_FAILURE(expect_recovered(
          setup, design,
          {signal(design, channels, 1), signal(design, channels, 40), signal(design, channels, longest)}));
    }
  }
}

TEST_P(clock_operation, GoesOnBehindBillionsOfSteps) {
  SCOPED_TRACE(random_.trace());
  for (const clock_design& design : {clock_design{8.0, "mueller-muller"}, clock_design{20.83, "gardner", 0.3, 0.02}}) {
    for (const std::int64_t earlier : {(std::int64_t{3} << 31U) + 5, (std::int64_t{1} << 53U) + 7}) {
      session_case setup = make(design, 50, 3);
      setup.age = earlier;
      setup.aged_from = 30;
      ASSERT_NO_FATAL_FAILURE(expect_recovered(setup, design, {signal(design, 3, 300)})) << "from step " << earlier;
    }
  }
}

TEST_P(clock_operation, FindsTheBitsOfASenderWhoseClockIsOff) {
  SCOPED_TRACE(random_.trace());
  for (const char* const detector : {"mueller-muller", "gardner"}) {
    for (const double off : {0.997, 1.0, 1.003}) {
      const clock_design design{10.0, detector, 0.1, 0.01};
      const std::vector<int> bits = random_bits(3000);
      const std::vector<std::vector<float>> signals{pulses(bits, 10.0 * off, 0.1)};
      const session_case setup = make(design, 900, 1, "bits");
      const std::vector<float> got = joined(run<float>(setup, signals)[0], setup.output().shape.back(), 1, 0);
      ASSERT_NEAR(static_cast<double>(got.size()), 3000.0, 12.0);
      // After the loop has settled: the same bits, at some distance.
      bool found = false;
      for (std::ptrdiff_t shift = -12; shift <= 12 && !found; ++shift) {
        found = true;
        for (std::ptrdiff_t at = 500; at < 2900 && found; ++at) {
          found = (got[static_cast<std::size_t>(at + shift)] > 0.5F) == (bits[static_cast<std::size_t>(at)] != 0);
        }
      }
      EXPECT_TRUE(found) << detector << ", " << off;
    }
  }
}

TEST_P(clock_operation, GivesBitsAndTheirChanges) {
  SCOPED_TRACE(random_.trace());
  const clock_design design{6.0, "mueller-muller"};
  const std::vector<std::vector<float>> signals{pulses(random_bits(300), 6.0, 0.05)};
  const auto of = [&](const char* output) {
    const session_case setup = make(design, 100, 1, output);
    return joined(run<float>(setup, signals)[0], setup.output().shape.back(), 1, 0);
  };
  const std::vector<float> symbols = of("symbols");
  const std::vector<float> bits = of("bits");
  const std::vector<float> changes = of("differential");
  ASSERT_EQ(bits.size(), symbols.size());
  ASSERT_EQ(changes.size(), symbols.size());
  float before = 0.0F;
  for (std::size_t at = 0; at < symbols.size(); ++at) {
    EXPECT_EQ(bits[at], symbols[at] > 0.0F ? 1.0F : 0.0F) << at;
    EXPECT_EQ(changes[at], bits[at] != before ? 1.0F : 0.0F) << at;
    before = bits[at];
  }
}

TEST_P(clock_operation, GoesOnBehindWhatIsNotFinite) {
  SCOPED_TRACE(random_.trace());
  const clock_design design{8.0, "gardner"};
  std::vector<float> x = pulses(random_bits(400), 8.0, 0.0);
  x[1600] = std::numeric_limits<float>::quiet_NaN();
  x[1700] = std::numeric_limits<float>::infinity();
  const session_case setup = make(design, 50, 1);
  const std::vector<float> got =
      joined(run<float>(setup, std::vector<std::vector<float>>{x})[0], setup.output().shape.back(), 1, 0);
  const auto spoilt = std::count_if(got.begin(), got.end(), [](float value) { return !std::isfinite(value); });
  EXPECT_LE(spoilt, 2);
  EXPECT_GT(got.size(), 390U);
  EXPECT_TRUE(std::isfinite(got.back()));
}

TEST(Clock, SaysHowManySymbolsAFrameCanGive) {
  const session_case setup{.op = "clock",
                           .settings = settings_of({{"omega", 4.0}, {"limit", 0.0}}),
                           .input = {.type = element_type::f32, .shape = {100, 3}, .variable = true}};
  EXPECT_EQ(setup.output(), (tensor_spec{element_type::f32, {3, 53}}));
}

TEST(Clock, TakesTheLargestGainMuWithoutAGainOmega) {
  const session_case setup{.op = "clock",
                           .settings = settings_of({{"omega", 4.0}, {"gain_mu", 10.0}}),
                           .input = {.type = element_type::f32, .shape = {100}}};
  EXPECT_NO_THROW(static_cast<void>(setup.output()));
}

TEST(Clock, RefusesWhatItCannotFollow) {
  const tensor_spec input{.type = element_type::f32, .shape = {100}};
  const auto with = [](const char* key, parameters::value value) {
    parameters settings = settings_of({{"omega", 4.0}});
    settings.set(key, std::move(value));
    return settings;
  };
  expect_refused("clock", {}, {input}, "omega", "missing");
  expect_refused("clock", with("omega", 1.0), {input}, "omega", "from 1.5 to 65536");
  expect_refused("clock", with("limit", 0.6), {input}, "limit", "from 0 to 0.5");
  expect_refused("clock", with("gain_mu", -1.0), {input}, "gain_mu", "from 0 to 10");
  expect_refused("clock", with("mu", 1.0), {input}, "mu", "below 1");
  expect_refused("clock", with("detector", std::string("early-late")), {input}, "detector",
                 R"("mueller-muller" or "gardner")");
  expect_refused("clock", with("mu", 0.0), {{.type = element_type::cf32, .shape = {100}}}, "from", "takes f32");
}

}  // namespace
}  // namespace penstock
