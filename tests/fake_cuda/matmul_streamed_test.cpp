// Products with streamed weights on the fake runtime, whose streams are threads. cuBLASLt's products are ours: each is
// a kernel of the fake runtime, so that a tile that is copied too early, or used too early, shows in the result.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cublas.hpp"
#include "kernels/kernel_queue.hpp"
#include "kernels/matmul_massive.hpp"
#include "tests/fake_cuda/fake_kernel.hpp"
#include "tests/fake_cuda/fake_machine.hpp"

namespace penstock {
namespace {

/// One call of a product, as a kernel. It takes a while, so that work that does not wait for it is ahead of it.
class product_call final : public operation {
 public:
  product_call(const product_settings& settings, const product_arguments& arguments)
      : settings_(settings), arguments_(arguments) {}

  fault run(void* /*stream*/, const operation_arguments& /*arguments*/) noexcept override {
    const auto* const a = static_cast<const float*>(arguments_.a);
    const auto* const b = static_cast<const float*>(arguments_.b);
    const auto* const bias = static_cast<const float*>(arguments_.bias);
    auto* const out = static_cast<float*>(arguments_.out);
    for (std::int64_t row = 0; row < arguments_.rows; ++row) {
      for (std::int64_t column = 0; column < settings_.n; ++column) {
        float& element = out[row * settings_.out.leading + column];
        float sum = settings_.beta == 0 ? 0 : element;
        for (std::int64_t at = 0; at < settings_.k; ++at) {
          sum += a[row * settings_.a.leading + at] * b[at * settings_.b.leading + column];
        }
        sum += settings_.has_bias ? bias[column] : 0;
        element = settings_.activation == product_activation::relu ? std::max(sum, 0.0F) : sum;
      }
    }
    return {};
  }

 private:
  product_settings settings_;
  product_arguments arguments_;
};

int products_made = 0;
bool fuses = true;  // bias and activation

fault enqueue_call(cudaStream_t stream, product_call& call) {
  testing::fake_kernel kernel{&call, {}};
  std::array<void*, 1> places{&kernel};
  const cudaError_t failed =
      cudaLaunchKernel(&testing::fake_kernel_address, dim3(1), dim3(1), places.data(), 0, stream);
  return failed == cudaSuccess ? fault{} : fault{"cudaErrorLaunchFailure"};
}

std::deque<product_call> finishes;

}  // namespace

namespace testing {

const char fake_kernel_address = 0;

const host_kernel* find_host_kernel(const void* /*function*/) {
  return nullptr;
}

}  // namespace testing

fault finish_rows(void* stream, std::int64_t /*multiprocessors*/, const matmul_settings& settings, const float* bias,
                  float* out, std::int64_t rows) noexcept {
  product_settings nothing{.n = settings.columns, .k = 0, .a = {}, .b = {}, .c = {}, .out = {}};
  nothing.out.leading = settings.columns;
  nothing.beta = 1;
  nothing.has_bias = bias != nullptr;
  nothing.activation = product_activation::relu;
  product_arguments arguments;
  arguments.bias = bias;
  arguments.out = out;
  arguments.rows = rows;
  product_call& call = finishes.emplace_back(nothing, arguments);
  return kernel_queue::of(stream).enqueue([&](cudaStream_t queue) { return enqueue_call(queue, call); });
}

class cublaslt_plan {
 public:
  explicit cublaslt_plan(const product_settings& settings) : settings_(settings) {
    if (!fuses && settings.has_bias) {
      throw no_algorithm("there is none");
    }
    ++products_made;
  }

  fault run(cudaStream_t stream, const product_arguments& arguments) {
    return enqueue_call(stream, calls_.emplace_back(settings_, arguments));
  }

 private:
  product_settings settings_;
  std::deque<product_call> calls_;
};

cublaslt_library::~cublaslt_library() = default;
std::shared_ptr<const cublaslt_library> cublaslt_library::load() {
  return nullptr;
}
cublaslt_product::cublaslt_product(std::shared_ptr<const cublaslt_library> /*library*/,
                                   const product_settings& settings, buckets /*rows*/, const void* b)
    : plan_(std::make_unique<cublaslt_plan>(settings)) {
  EXPECT_NE(b, nullptr);
}
cublaslt_product::cublaslt_product(cublaslt_product&& other) noexcept = default;
cublaslt_product::~cublaslt_product() = default;
std::size_t cublaslt_product::workspace_bytes() const noexcept {
  return 256;
}
fault cublaslt_product::run(cudaStream_t stream, const product_arguments& arguments) const noexcept {
  return plan_->run(stream, arguments);
}

namespace {

class plain_queue final : public kernel_queue {
 public:
  plain_queue() { EXPECT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess); }
  ~plain_queue() override { cudaStreamDestroy(stream_); }
  fault add(const kernel_call& /*call*/) noexcept override { return {"none here"}; }
  void wait() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 protected:
  fault flush() noexcept override { return {}; }
  [[nodiscard]] cudaStream_t stream() const noexcept override { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

constexpr std::int64_t columns = 256;
constexpr std::size_t tile_bytes = 64 << 10;  // of 64 rows

class MatmulStreamed : public ::testing::TestWithParam<std::int64_t> {
 protected:
  static constexpr std::int64_t max_rows = 3;

  std::vector<float> numbers(std::int64_t count) {
    std::uniform_real_distribution<float> between(-1, 1);
    std::vector<float> made(static_cast<std::size_t>(count));
    for (float& each : made) {
      each = between(random_);
    }
    return made;
  }

  std::unique_ptr<operation> make() {
    parameters settings;
    settings.set("weights", number_file::of({inner_, columns}, weights_));
    settings.set("bias", number_file::of({columns}, bias_));
    settings.set("activation", std::string("relu"));
    settings.set("weights_in", std::string("host"));
    settings.set("tile_bytes", static_cast<std::int64_t>(tile_bytes));
    return make_matmul_streamed(parse_matmul(settings, {element_type::f32, {inner_}, false}), max_rows);
  }

  void expect_product(const std::vector<float>& x, const std::vector<float>& out, std::int64_t rows) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        double sum = static_cast<double>(bias_[static_cast<std::size_t>(column)]);
        for (std::int64_t at = 0; at < inner_; ++at) {
          sum += static_cast<double>(x[static_cast<std::size_t>(row * inner_ + at)]) *
                 static_cast<double>(weights_[static_cast<std::size_t>(at * columns + column)]);
        }
        ASSERT_NEAR(static_cast<double>(out[static_cast<std::size_t>(row * columns + column)]), std::max(sum, 0.0),
                    1e-3)
            << row << ", " << column;
      }
    }
  }

  /// Several runs on two streams.
  void expect_products() {
    const std::unique_ptr<operation> product = make();
    std::array<plain_queue, 2> queues;
    std::vector<float> scratch(64);
    struct batch {
      std::vector<float> x;
      std::vector<float> out;
      std::int64_t rows;
    };
    std::deque<batch> batches;
    for (std::int64_t run = 0; run < 8; ++run) {
      const std::int64_t rows = 1 + run % max_rows;
      batch& each = batches.emplace_back(
          batch{numbers(rows * inner_), std::vector<float>(static_cast<std::size_t>(rows * columns), NAN), rows});
      const std::array<const void*, 1> inputs{each.x.data()};
      kernel_queue& queue = queues[static_cast<std::size_t>(run % 2)];
      ASSERT_FALSE(product->run(&queue, {.inputs = inputs,
                                         .output = each.out.data(),
                                         .scratch = scratch.data(),
                                         .extent = {.frames = rows, .leading = inner_},
                                         .session = {}}));
    }
    for (const plain_queue& each : queues) {
      each.wait();
    }
    for (const batch& each : batches) {
      expect_product(each.x, each.out, each.rows);
    }
  }

  std::mt19937 random_{1};
  const std::int64_t inner_ = GetParam();
  const std::vector<float> weights_ = numbers(inner_ * columns);
  const std::vector<float> bias_ = numbers(columns);
};

TEST_P(MatmulStreamed, IsTheProductOnStreamsInTurn) {
  expect_products();
}

TEST_P(MatmulStreamed, IsFollowedByWhatTheLibraryCanNotFuse) {
  fuses = false;
  expect_products();
  fuses = true;
}

TEST_P(MatmulStreamed, MakesAProductForEachKindOfTile) {
  products_made = 0;
  const std::unique_ptr<operation> product = make();
  const std::int64_t tiles = (inner_ + 63) / 64;
  EXPECT_EQ(products_made, std::min<std::int64_t>(tiles, 3));
  EXPECT_NE(product->note().find(std::to_string(tiles) + " tiles"), std::string::npos) << product->note();
}

// One tile, a whole number of them, and a last one that is smaller; more of them than lie on the device.
INSTANTIATE_TEST_SUITE_P(Inner, MatmulStreamed, ::testing::Values(17, 64, 128, 192, 700));

}  // namespace
}  // namespace penstock
