#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "kernels/openblas.hpp"
#include "tests/kernels/element_codec.hpp"
#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

/// A layer with random weights, which a batch goes through.
struct layer {
  std::int64_t inner;
  std::int64_t columns;
  std::vector<float> weights;
  std::vector<float> bias;

  layer(random_input& random, std::int64_t k, std::int64_t n, bool biased = false)
      : inner(k), columns(n), weights(random.normal(static_cast<std::size_t>(k * n))) {
    if (biased) {
      bias = random.normal(static_cast<std::size_t>(n), 0.0, 3.0);
    }
  }

  [[nodiscard]] parameters settings() const {
    parameters made;
    made.set("weights", number_file::of({inner, columns}, weights));
    if (!bias.empty()) {
      made.set("bias", number_file::of({columns}, bias));
    }
    return made;
  }
};

/// A result without its activation, and the root of the sum of its squared terms.
struct exact_result {
  double value = 0.0;
  double size = 0.0;
};

std::vector<exact_result> product(const layer& given, const std::vector<double>& x) {
  std::vector<exact_result> results;
  const auto inner = static_cast<std::size_t>(given.inner);
  const auto columns = static_cast<std::size_t>(given.columns);
  for (std::size_t row = 0; row < x.size() / inner; ++row) {
    for (std::size_t n = 0; n < columns; ++n) {
      double sum = 0.0;
      double squares = 0.0;
      for (std::size_t k = 0; k < inner; ++k) {
        const double term = x[row * inner + k] * static_cast<double>(given.weights[k * columns + n]);
        sum += term;
        squares += term * term;
      }
      results.push_back({sum + (given.bias.empty() ? 0.0 : static_cast<double>(given.bias[n])), std::sqrt(squares)});
    }
  }
  return results;
}

double gelu(double y) {
  const double root = std::sqrt(2.0 / std::acos(-1.0));
  return y / 2.0 * (1.0 + std::tanh(root * (y + 0.044715 * y * y * y)));
}

class matmul_operation : public operation_test {
 protected:
  void SetUp() override {
    try {
      static_cast<void>(openblas_library::load());
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  /// Runs `x` in elements of the setup's type and gives the results as numbers; `x` becomes what was run.
  std::vector<double> run_numbers(const operation_case& setup, std::vector<double>& x) {
    const element_codec codec{setup.input.type};
    std::vector<std::uint64_t> elements;
    for (double& each : x) {
      elements.push_back(codec.encode(each));
      each = static_cast<double>(codec.decode(elements.back()));
    }
    const std::vector<std::byte> bytes = codec.encode_all(elements);
    std::vector<double> results;
    for (const std::uint64_t each : codec.split(runner().run(setup, bytes))) {
      results.push_back(static_cast<double>(codec.decode(each)));
    }
    return results;
  }
};
PENSTOCK_ON_EACH_BACKEND(matmul_operation);

std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

TEST_P(matmul_operation, MultipliesRowsOfAnyShapeInF32) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 10; ++round) {
    const layer given(random, random.integer(1, round % 2 == 0 ? 40 : 700), random.integer(1, 120), random.coin());
    operation_case setup{.op = "matmul",
                         .settings = given.settings(),
                         .input = random.fixed_row_spec(element_type::f32, given.inner, given.inner)};
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    setup.settings.set("repeatable", random.coin());
    const auto x = random.normal(values_in(setup.input, setup.extent));
    const auto y = run<float>(setup, x);
    const auto expected = product(given, doubles(x));
    ASSERT_EQ(y.size(), expected.size());
    const double precision = 1e-6 * std::sqrt(static_cast<double>(given.inner));
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected[i].value, precision * expected[i].size + 1e-6 * std::abs(expected[i].value))
          << setup.text() << " at " << i;
    }
  }
}

TEST_P(matmul_operation, RoundsFactorsToTheTypeOfCompute) {
  struct precision {
    const char* compute;
    double of_terms;
  };
  random_input random;
  SCOPED_TRACE(random.trace());
  // Six standard deviations of the sum: bf16 rounds a factor by up to 2^-8, which is 0.0023 of a term for two.
  for (const precision& each : {precision{"f32", 2e-5}, {"tf32", 4e-3}, {"f16", 4e-3}, {"bf16", 1.5e-2}}) {
    for (const element_type type : {element_type::f32, element_type::f16, element_type::bf16}) {
      const layer given(random, random.integer(1, 300), random.integer(1, 100), random.coin());
      operation_case setup{.op = "matmul",
                           .settings = given.settings(),
                           .input = {.type = type, .shape = {random.integer(1, 5), given.inner}}};
      setup.extent.frames = random.integer(1, 9);
      setup.settings.set("compute", std::string(each.compute));
      std::vector<double> x = doubles(random.normal(values_in(setup.input, setup.extent)));
      const auto y = run_numbers(setup, x);
      const auto expected = product(given, x);
      ASSERT_EQ(y.size(), expected.size());
      // Of the result, and of a bias of its type.
      const double last_place = type == element_type::f32 ? 1e-6 : type == element_type::f16 ? 0x1p-10 : 0x1p-7;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double bias = given.bias.empty() ? 0.0 : given.bias[i % given.bias.size()];
        ASSERT_NEAR(y[i], expected[i].value,
                    each.of_terms * expected[i].size + last_place * (std::abs(expected[i].value) + std::abs(bias)))
            << setup.text() << " in " << each.compute << " at " << i;
      }
    }
  }
}

TEST_P(matmul_operation, AppliesAnActivation) {
  random_input random;
  SCOPED_TRACE(random.trace());
  double furthest = 0.0;
  for (const std::string activation : {"relu", "gelu"}) {
    for (const bool biased : {false, true}) {
      const layer given(random, 33, 70, biased);
      operation_case setup{.op = "matmul",
                           .settings = given.settings(),
                           .input = {.type = element_type::f32, .shape = {4, given.inner}}};
      setup.extent.frames = 5;
      setup.settings.set("activation", activation);
      const auto x = random.normal(values_in(setup.input, setup.extent), 0.0, 0.3);
      const auto y = run<float>(setup, x);
      const auto expected = product(given, doubles(x));
      ASSERT_EQ(y.size(), expected.size());
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double exact = activation == "relu" ? std::max(expected[i].value, 0.0) : gelu(expected[i].value);
        // cuBLASLt's gelu takes the processor's tanh.
        const double of_gelu = activation == "gelu" && GetParam() != "host" ? 1e-3 : 1e-6;
        ASSERT_NEAR(y[i], exact, 1e-5 * expected[i].size + of_gelu * std::abs(expected[i].value)) << activation;
        furthest = std::max(furthest, std::abs(y[i] - exact));
      }
    }
  }
  RecordProperty("furthest", std::to_string(furthest));
}

TEST_P(matmul_operation, KeepsGeluOfFarNumbers) {
  random_input random;
  layer given(random, 1, 6);
  given.weights = {-100.0F, -12.0F, -1e30F, 0.0F, 12.0F, 1e30F};
  operation_case setup{
      .op = "matmul", .settings = given.settings(), .input = {.type = element_type::f32, .shape = {1}}};
  setup.settings.set("activation", std::string("gelu"));
  const auto y = run<float>(setup, std::vector<float>{1.0F});
  ASSERT_EQ(y.size(), 6U);
  EXPECT_NEAR(y[0], 0.0, 1e-6);
  EXPECT_NEAR(y[1], 0.0, 1e-6);
  EXPECT_NEAR(y[2], 0.0, 1e24);
  EXPECT_EQ(y[3], 0.0F);
  EXPECT_NEAR(y[4], 12.0, 1e-5);
  EXPECT_NEAR(y[5], 1e30, 1e24);
}

// As in torch; max(y, 0) of a NaN is 0 in some libraries.
TEST_P(matmul_operation, KeepsNanThroughEachActivation) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::string activation : {"relu", "gelu"}) {
    for (const std::int64_t columns : {5, 64}) {
      const layer given(random, 16, columns, true);
      operation_case setup{
          .op = "matmul", .settings = given.settings(), .input = {.type = element_type::f32, .shape = {16}}};
      setup.settings.set("activation", activation);
      setup.extent.frames = 3;
      std::vector<float> x = random.normal(values_in(setup.input, setup.extent));
      x[20] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> y = run<float>(setup, x);
      for (std::size_t at = 0; at < y.size(); ++at) {
        ASSERT_EQ(std::isnan(y[at]), at / static_cast<std::size_t>(columns) == 1) << activation << " at " << at;
      }
    }
  }
}

TEST_P(matmul_operation, GivesARowTheSameBitsInEveryBatchWhereThatIsWanted) {
  random_input random;
  SCOPED_TRACE(random.trace());
  constexpr std::int64_t most = 70;
  struct size {
    std::int64_t inner;
    std::int64_t columns;
    std::int64_t rows;  ///< of a frame
  };
  for (const size& each : {size{257, 129, 1}, {64, 64, 5}, {700, 33, 1}, {100, 1, 3}, {2000, 17, 1}}) {
    for (const std::string compute : {"f32", "tf32", "bf16"}) {
      const layer given(random, each.inner, each.columns, true);
      operation_case setup{.op = "matmul",
                           .settings = given.settings(),
                           .input = {.type = element_type::f32, .shape = {each.rows, each.inner}}};
      setup.settings.set("repeatable", true);
      setup.settings.set("compute", compute);
      setup.settings.set("activation", std::string("gelu"));
      setup.extent.frames = most;
      const auto x = random.normal(values_in(setup.input, setup.extent));
      const auto whole = run<float>(setup, x);
      const auto frame_in = static_cast<std::ptrdiff_t>(each.rows * each.inner);
      const auto frame_out = static_cast<std::ptrdiff_t>(each.rows * each.columns);
      for (int round = 0; round < 6; ++round) {
        const std::int64_t count = round == 0 ? 1 : random.integer(1, most - 1);
        const std::int64_t first = random.integer(0, most - count);
        setup.extent.frames = count;
        setup.spare_frames = most - count;
        const auto y =
            run<float>(setup, std::vector<float>(x.begin() + first * frame_in, x.begin() + (first + count) * frame_in));
        const std::vector<float> expected(whole.begin() + first * frame_out,
                                          whole.begin() + (first + count) * frame_out);
        ASSERT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
            << setup.text() << " in " << compute << ", frames " << first << " to " << first + count;
      }
      setup.spare_frames = 0;
    }
  }
}

TEST_P(matmul_operation, KeepsWhatIsNotFiniteInItsRow) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const bool repeatable : {false, true}) {
    const layer given(random, 50, 20);
    operation_case setup{
        .op = "matmul", .settings = given.settings(), .input = {.type = element_type::f32, .shape = {7, 50}}};
    setup.extent.frames = 3;
    setup.settings.set("repeatable", repeatable);
    auto x = random.normal(values_in(setup.input, setup.extent));
    x[4 * 50 + 3] = std::numeric_limits<float>::quiet_NaN();
    x[11 * 50 + 49] = std::numeric_limits<float>::infinity();
    const auto y = run<float>(setup, x);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(std::isfinite(y[i]), i / 20 != 4 && i / 20 != 11) << i;
    }
  }
}

TEST(MatmulRefusal, NamesTheParameterAndWhatFits) {
  const tensor_spec input{.type = element_type::f32, .shape = {3, 8}};
  const auto refused = [&](const entries& given, const char* field, const std::string& message) {
    expect_refused("matmul", settings_of(given), {input}, field, message);
  };
  const parameters::value weights = npy_of({8, 4});
  refused({}, "weights", "is missing");
  refused({{"weights", std::string("w.txt")}}, "weights", "must be the name of a .npy file");
  refused({{"weights", npy_of({7, 4})}}, "weights", "must be [8, N] for an input of f32[3, 8], not f32[7, 4]");
  refused({{"weights", npy_of({8})}}, "weights", "must be [8, N]");
  refused({{"weights", weights}, {"bias", npy_of({3})}}, "bias", "must be [4] for weights of f32[8, 4], not f32[3]");
  refused({{"weights", weights}, {"bias", npy_of({4, 1})}}, "bias", "not f32[4, 1]");
  refused({{"weights", weights}, {"activation", std::string("tanh")}}, "activation", "gelu");
  refused({{"weights", weights}, {"compute", std::string("f64")}}, "compute", "tf32");
  refused({{"weights", weights}, {"repeatable", 1.0}}, "repeatable", "true or false");
  expect_refused("matmul", settings_of({{"weights", weights}}), {{element_type::cf32, {8}}}, "from",
                 "takes f32, f16 or bf16, not cf32[8]");
  expect_refused("matmul", settings_of({{"weights", weights}}), {{element_type::f32, {8}, true}}, "from", "fixed");
}

std::string complaint_when_made(const entries& given) {
  const tensor_spec input{.type = element_type::f32, .shape = {2}};
  try {
    const parameters settings = settings_of(given);
    static_cast<void>(find_operator("matmul")->make_host({settings, std::span(&input, 1), 4}));
  } catch (const parameter_error& error) {
    return error.field + ": " + error.what();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(MatmulRefusal, OfNumbersThatDoNotFitNamesThem) {
  if (complaint_when_made({{"weights", npy_of({2, 2})}}) != "") {
    GTEST_SKIP() << complaint_when_made({{"weights", npy_of({2, 2})}});
  }
  const std::vector<float> numbers{1.0F, 2.0F, std::numeric_limits<float>::infinity(), 70000.0F};
  EXPECT_EQ(complaint_when_made({{"weights", number_file::of({2, 2}, numbers)}}),
            "weights: \"numbers\": number 2 (counted from 0) is not finite in f32");
  const entries large{{"weights", number_file::of({2, 1}, std::span(numbers).last(1))}};
  EXPECT_EQ(complaint_when_made(large),
            "weights: \"numbers\": was cut while it was read: write a new file beside it, "
            "and rename that");
  const std::vector<float> beyond{1.0F, 70000.0F};
  EXPECT_EQ(complaint_when_made({{"weights", number_file::of({2, 1}, beyond)}, {"compute", std::string("f16")}}),
            "weights: \"numbers\": holds numbers beyond the range of f16, ±65504");
  const std::vector<float> largest{1.0F, std::numeric_limits<float>::max()};
  EXPECT_EQ(complaint_when_made({{"weights", number_file::of({2, 1}, largest)}, {"compute", std::string("bf16")}}),
            "weights: \"numbers\": holds numbers beyond the range of bf16, ±3.39e38");
  EXPECT_EQ(complaint_when_made({{"weights", number_file::of({2, 1}, largest)}}), "");
}

}  // namespace
}  // namespace penstock
