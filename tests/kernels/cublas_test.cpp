#include "kernels/cublas.hpp"

#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/launch.cuh"
#include "tests/kernels/element_codec.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

/// A matrix, or several of a batch, as numbers of its type; row-major in memory as `layout` says.
struct host_matrix {
  product_matrix layout;
  std::int64_t rows;  ///< in memory
  std::int64_t batch;
  std::vector<double> numbers;

  host_matrix(random_input& random, const product_matrix& given, std::int64_t stored_rows, std::int64_t count)
      : layout(given), rows(stored_rows), batch(count) {
    const element_codec codec{layout.type};
    for (const float each :
         random.normal(static_cast<std::size_t>((batch - 1) * layout.stride + rows * layout.leading))) {
      numbers.push_back(static_cast<double>(codec.decode(codec.encode(each))));
    }
  }

  [[nodiscard]] double at(std::int64_t each, std::int64_t row, std::int64_t column) const {
    return numbers[static_cast<std::size_t>(each * layout.stride + row * layout.leading + column)];
  }
  /// Of the matrix that is multiplied.
  [[nodiscard]] double factor(std::int64_t each, std::int64_t row, std::int64_t column) const {
    return layout.transposed ? at(each, column, row) : at(each, row, column);
  }
  [[nodiscard]] device_array<std::byte> upload() const { return upload(numbers, layout.type); }

  [[nodiscard]] static device_array<std::byte> upload(const std::vector<double>& values, element_type type) {
    const element_codec codec{type};
    std::vector<std::uint64_t> elements;
    for (const double each : values) {
      elements.push_back(codec.encode(each));
    }
    const std::vector<std::byte> bytes = codec.encode_all(elements);
    device_array<std::byte> memory{std::span<const std::byte>(bytes)};
    require_cuda(cudaDeviceSynchronize(), "copy a matrix");
    return memory;
  }
};

std::vector<double> download(const device_array<std::byte>& memory, std::size_t count, element_type type) {
  require_cuda(cudaDeviceSynchronize(), "run a product");
  std::vector<std::byte> bytes(count * size_of(type));
  require_cuda(cudaMemcpy(bytes.data(), memory.data(), bytes.size(), cudaMemcpyDeviceToHost), "read a matrix");
  const element_codec codec{type};
  std::vector<double> values;
  for (const std::uint64_t each : codec.split(bytes)) {
    values.push_back(static_cast<double>(codec.decode(each)));
  }
  return values;
}

double activated(product_activation activation, double y) {
  const double u = 0.7978845608028654 * (y + 0.044715 * y * y * y);
  return activation == product_activation::relu   ? std::max(y, 0.0)
         : activation == product_activation::gelu ? y / 2.0 * (1.0 + std::tanh(u))
                                                  : y;
}

/// Of a factor, relative to it, with what its sums lose.
double precision_of(const product_settings& settings) {
  switch (settings.a.type) {
    case element_type::f64:
      return 1e-14;
    case element_type::f32:
      return settings.tf32 ? 4e-3 : 1e-5;
    default:
      return 1e-5;  // factors that are of the type already
  }
}

class cublaslt : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
      static_cast<void>(cudaGetLastError());
      GTEST_SKIP() << "there is no GPU";
    }
    try {
      library_ = cublaslt_library::load();
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  /// Runs it for `rows` rows and compares with sums in double precision.
  void expect_exact(random_input& random, const product_settings& settings, std::int64_t rows,
                    cublaslt_product::buckets buckets = cublaslt_product::buckets::one) {
    const auto stored = [](const product_matrix& matrix, std::int64_t height, std::int64_t width) {
      return matrix.transposed ? width : height;
    };
    const host_matrix a(random, settings.a, stored(settings.a, settings.m, settings.k), settings.batch);
    const host_matrix b(random, settings.b, stored(settings.b, settings.k, settings.n), settings.batch);
    const host_matrix c(random, settings.c.leading == 0 ? settings.out : settings.c, settings.m, settings.batch);
    const host_matrix before(random, settings.out, settings.m, settings.batch);
    std::vector<double> bias(static_cast<std::size_t>(settings.n));
    const element_codec codec{settings.out.type};
    for (double& each : bias) {
      each = static_cast<double>(codec.decode(codec.encode(random.real(-2, 2))));
    }
    const cublaslt_product product(library_, settings, buckets);
    const auto a_memory = a.upload();
    const auto b_memory = b.upload();
    const auto c_memory = c.upload();
    const auto bias_memory = host_matrix::upload(bias, settings.out.type);
    auto out = before.upload();
    device_array<std::byte> workspace(product.workspace_bytes() + 256);
    const fault failed = product.run(nullptr, {.a = a_memory.data(),
                                               .b = b_memory.data(),
                                               .c = c_memory.data(),
                                               .bias = bias_memory.data(),
                                               .out = out.data(),
                                               .workspace = workspace.data(),
                                               .rows = rows});
    ASSERT_FALSE(failed) << failed.name;
    const std::vector<double> y = download(out, before.numbers.size(), settings.out.type);
    const double rounding = settings.out.type == element_type::f16    ? 0x1p-10
                            : settings.out.type == element_type::bf16 ? 0x1p-7
                            : settings.out.type == element_type::f64  ? 1e-14
                                                                      : 1e-6;
    const double of_gelu = settings.activation == product_activation::gelu ? 1e-3 : 0.0;
    std::vector<bool> written(y.size());
    for (std::int64_t each = 0; each < settings.batch; ++each) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t n = 0; n < settings.n; ++n) {
          double sum = 0.0;
          double squares = 0.0;
          for (std::int64_t k = 0; k < settings.k; ++k) {
            const double term = settings.alpha * a.factor(each, row, k) * b.factor(each, k, n);
            sum += term;
            squares += term * term;
          }
          const double before_activation = sum + (settings.beta == 0 ? 0.0 : settings.beta * c.at(each, row, n)) +
                                           (settings.has_bias ? bias[static_cast<std::size_t>(n)] : 0.0);
          const auto place = static_cast<std::size_t>(each * settings.out.stride + row * settings.out.leading + n);
          written[place] = true;
          ASSERT_NEAR(
              y[place], activated(settings.activation, before_activation),
              precision_of(settings) * std::sqrt(squares) + (rounding + of_gelu) * std::abs(before_activation) + 1e-12)
              << "matrix " << each << ", row " << row << ", column " << n;
        }
      }
    }
    for (std::size_t at = 0; at < y.size(); ++at) {
      ASSERT_TRUE(written[at] || y[at] == before.numbers[at]) << "wrote beyond the matrix, at " << at;
    }
  }

  std::shared_ptr<const cublaslt_library> library_;
};

product_settings settings_of(element_type type, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.m = m,
          .n = n,
          .k = k,
          .a = {.type = type, .leading = k},
          .b = {.type = type, .leading = n},
          .c = {},
          .out = {.type = type, .leading = n}};
}

TEST_F(cublaslt, MultipliesEachTypeTransposedAndNot) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f32, element_type::f64, element_type::f16, element_type::bf16}) {
    for (const bool tf32 : {false, true}) {
      for (int transposed = 0; transposed < 4 && (!tf32 || type == element_type::f32); ++transposed) {
        product_settings settings = settings_of(type, 24, 40, 56);
        settings.tf32 = tf32;
        settings.a.transposed = (transposed & 1) != 0;
        settings.a.leading = settings.a.transposed ? 24 : 56;
        settings.b.transposed = (transposed & 2) != 0;
        settings.b.leading = settings.b.transposed ? 56 : 40;
        SCOPED_TRACE(std::string(name_of(type)) + ", transposed " + std::to_string(transposed));
        expect_exact(random, settings, 24);
      }
    }
  }
}

TEST_F(cublaslt, TakesOddExtentsGapsBetweenRowsAndBatches) {
  random_input random;
  SCOPED_TRACE(random.trace());
  product_settings settings = settings_of(element_type::f32, 7, 5, 13);
  settings.batch = 3;
  settings.a.leading = 17;
  settings.a.stride = 7 * 17 + 3;
  settings.b.stride = 0;  // one for all
  settings.out.leading = 9;
  settings.out.stride = 7 * 9 + 1;
  settings.c = settings.out;
  settings.alpha = -0.5;
  settings.beta = 2;
  expect_exact(random, settings, 7);
  for (const element_type type : {element_type::f16, element_type::bf16}) {
    product_settings small = settings_of(type, 7, 5, 13);
    small.out.type = element_type::f32;
    expect_exact(random, small, 7);
  }
}

TEST_F(cublaslt, AddsABiasAndAppliesAnActivation) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f32, element_type::f16, element_type::bf16}) {
    for (const product_activation activation :
         {product_activation::none, product_activation::relu, product_activation::gelu}) {
      for (const bool biased : {false, true}) {
        for (const std::int64_t columns : {64, 10, 7}) {
          product_settings settings = settings_of(type, 20, columns, 48);
          settings.activation = activation;
          settings.has_bias = biased;
          SCOPED_TRACE(std::string(name_of(type)) + ", activation " + std::to_string(static_cast<int>(activation)) +
                       (biased ? ", bias, " : ", ") + std::to_string(columns) + " columns");
          if (activation == product_activation::gelu && type != element_type::f32 && columns % 8 != 0) {
            EXPECT_THROW(cublaslt_product(library_, settings), no_algorithm);
            continue;
          }
          expect_exact(random, settings, 20);
        }
      }
    }
  }
}

TEST_F(cublaslt, TakesFewerRowsByTheAlgorithmOfTheirBucket) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const product_settings settings = settings_of(element_type::f32, 100, 33, 65);
  for (const std::int64_t rows : {1, 2, 3, 31, 64, 65, 100}) {
    expect_exact(random, settings, rows, cublaslt_product::buckets::powers_of_two);
  }
  const cublaslt_product product(library_, settings, cublaslt_product::buckets::powers_of_two);
  EXPECT_TRUE(product.run(nullptr, {.rows = 101}));
}

TEST_F(cublaslt, CanBeCaptured) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const product_settings settings = settings_of(element_type::bf16, 64, 128, 256);
  const host_matrix a(random, settings.a, 64, 1);
  const host_matrix b(random, settings.b, 256, 1);
  const auto a_memory = a.upload();
  const auto b_memory = b.upload();
  const cublaslt_product product(library_, settings);
  device_array<std::byte> workspace(product.workspace_bytes() + 256);
  device_array<std::byte> out(64 * 128 * 2);
  device_array<std::byte> captured(64 * 128 * 2);
  cudaStream_t stream = nullptr;
  require_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
  product_arguments arguments{
      .a = a_memory.data(), .b = b_memory.data(), .out = out.data(), .workspace = workspace.data()};
  ASSERT_FALSE(product.run(stream, arguments));
  require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  arguments.out = captured.data();
  const fault failed = product.run(stream, arguments);
  cudaGraph_t graph = nullptr;
  require_cuda(cudaStreamEndCapture(stream, &graph), "capture");
  ASSERT_FALSE(failed) << failed.name;
  cudaGraphExec_t program = nullptr;
  require_cuda(cudaGraphInstantiate(&program, graph, 0), "make a graph");
  require_cuda(cudaGraphLaunch(program, stream), "launch a graph");
  require_cuda(cudaStreamSynchronize(stream), "launch a graph");
  EXPECT_EQ(download(captured, 64 * 128, element_type::bf16), download(out, 64 * 128, element_type::bf16));
  cudaGraphExecDestroy(program);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace penstock
