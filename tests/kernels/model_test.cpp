#include "kernels/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/onednn.hpp"
#include "kernels/thread_variables.hpp"
#include "tests/kernels/operator_sample.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;

// -- buckets ----------------------------------------------------------------------------------------------------------

/// The buckets that a batch is run in.
std::vector<std::int64_t> runs_of(const std::vector<std::int64_t>& buckets, std::int64_t frames) {
  const bucket_plan plan(buckets, 256, 1);
  std::vector<std::int64_t> runs;
  while (frames > 0) {
    runs.push_back(buckets[plan.next(frames)]);
    frames -= runs.back();
  }
  return runs;
}

TEST(BucketPlan, TakesTheLargestAndOneThatFitsTheRest) {
  EXPECT_THAT(runs_of({1, 8, 64}, 64), ElementsAre(64));
  EXPECT_THAT(runs_of({1, 8, 64}, 65), ElementsAre(64, 1));
  EXPECT_THAT(runs_of({1, 8, 64}, 200), ElementsAre(64, 64, 64, 8));
}

TEST(BucketPlan, PadsWhereThatIsCheaperThanManyRuns) {
  EXPECT_THAT(runs_of({1, 8, 64}, 5), ElementsAre(8));
  EXPECT_THAT(runs_of({1, 8, 64}, 4), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(runs_of({1, 8, 64}, 60), ElementsAre(64));
  EXPECT_THAT(runs_of({1, 8, 64}, 33), ElementsAre(8, 8, 8, 8, 1));
  EXPECT_THAT(runs_of({64}, 1), ElementsAre(64));
}

// -- tensors without PyTorch ------------------------------------------------------------------------------------------

/// Memory of the heap, and calls that are written down.
class recording_device final : public torch_device {
 public:
  [[nodiscard]] std::int32_t type() const noexcept override { return torch_cpu; }
  [[nodiscard]] std::byte* allocate(std::size_t bytes) noexcept override {
    ++allocations;
    return static_cast<std::byte*>(std::calloc(std::max<std::size_t>(bytes, 1), 1));
  }
  void release(std::byte* memory) noexcept override {
    --allocations;
    std::free(memory);
  }
  fault product(torch_run& /*run*/, const torch_product& asked, std::size_t call) noexcept override {
    products.push_back(call);
    added = asked.add == nullptr
                ? std::vector<std::int64_t>{}
                : std::vector<std::int64_t>(asked.add->strides.begin(), asked.add->strides.begin() + 2);
    return {};
  }
  fault convolve(torch_run& /*run*/, const torch_convolution& asked, std::size_t /*call*/) noexcept override {
    convolved.assign(asked.out->sizes.begin(), asked.out->sizes.begin() + asked.out->extents);
    return {};
  }
  fault copy(torch_run* /*run*/, const torch_tensor& to, const torch_tensor& from) noexcept override {
    std::copy_n(from.first(), to.bytes, to.first());
    return {};
  }
  fault fill(torch_run* /*run*/, const torch_tensor& to, double value) noexcept override {
    std::fill_n(reinterpret_cast<float*>(to.first()), to.elements(), static_cast<float>(value));
    return {};
  }

  int allocations = 0;
  std::vector<std::size_t> products;
  std::vector<std::int64_t> added;
  std::vector<std::int64_t> convolved;
};

using handle = torch_tensor*;
using shape = std::vector<std::int64_t>;

template <class Signature>
Signature* function(const std::string& name) {
  const void* const found = own_torch_function("aoti_torch_" + name);
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Signature*>(const_cast<void*>(found));
}

shape strides_of(const shape& sizes) {
  shape strides(sizes.size(), 1);
  for (std::size_t axis = sizes.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * sizes[axis];
  }
  return strides;
}

/// nullptr: it was refused.
handle empty(const shape& sizes, torch_type type = torch_type::f32) {
  handle made = nullptr;
  const shape strides = strides_of(sizes);
  const auto call = function<std::int32_t(std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t,
                                          std::int32_t, std::int32_t, handle*)>("empty_strided");
  const bool made_one = call(static_cast<std::int64_t>(sizes.size()), sizes.data(), strides.data(),
                             static_cast<std::int32_t>(type), torch_cpu, -1, &made) == 0;
  return made_one ? made : nullptr;
}

handle view(handle of, const shape& sizes, std::int64_t offset) {
  handle made = nullptr;
  const shape strides = strides_of(sizes);
  EXPECT_EQ(
      function<std::int32_t(handle, std::int64_t, const std::int64_t*, const std::int64_t*, std::int64_t, handle*)>(
          "_reinterpret_tensor")(of, static_cast<std::int64_t>(sizes.size()), sizes.data(), strides.data(), offset,
                                 &made),
      0);
  return made;
}

void drop(handle tensor) {
  EXPECT_EQ(function<std::int32_t(handle)>("delete_tensor_object")(tensor), 0);
}

class OwnTorch : public testing::Test {
 protected:
  recording_device device_;
};

TEST_F(OwnTorch, MakesTensorsInTheMemoryOfTheirRun) {
  alignas(64) std::array<std::byte, 512> memory{};
  std::array<torch_tensor, 4> tensors;
  std::array<torch_block, 4> blocks;
  torch_run run(device_, nullptr, memory, tensors, blocks);
  const handle one = empty({3, 5});
  const handle two = empty({8});
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(one->first(), memory.data());
  EXPECT_EQ(two->first(), memory.data() + 64);
  EXPECT_EQ(one->bytes, 60U);
  EXPECT_THAT(std::vector(one->strides.begin(), one->strides.begin() + 2), ElementsAre(5, 1));
  EXPECT_EQ(device_.allocations, 0);
}

TEST_F(OwnTorch, UsesMemoryAgainThatIsFree) {
  alignas(64) std::array<std::byte, 128> memory{};
  std::array<torch_tensor, 3> tensors;
  std::array<torch_block, 2> blocks;
  torch_run run(device_, nullptr, memory, tensors, blocks);
  for (int turn = 0; turn < 5; ++turn) {
    const handle below = empty({16});
    const handle above = empty({16});
    const handle seen = view(below, {4}, 12);
    ASSERT_NE(above, nullptr) << turn;
    drop(below);  // a view still reads it
    EXPECT_EQ(empty({1}), nullptr);
    EXPECT_EQ(seen->first(), memory.data() + 48);
    drop(above);
    drop(seen);
  }
  EXPECT_STREQ(run.met().name, "TORCH_OUT_OF_SCRATCH");
}

TEST_F(OwnTorch, PreparesOnceWhatARunNeeds) {
  torch_needs needs;
  {
    torch_run run(device_, nullptr);
    const handle one = empty({100});
    const handle two = empty({100});
    drop(two);
    const handle three = empty({10});
    drop(three);
    drop(one);
    needs = run.needs();
  }
  EXPECT_EQ(device_.allocations, 0);
  EXPECT_EQ(needs.bytes, 2U * 448U);
  EXPECT_EQ(needs.tensors, 2U);
  EXPECT_EQ(needs.blocks, 2U);
}

TEST_F(OwnTorch, RefusesMoreThanThereIsRoomFor) {
  alignas(64) std::array<std::byte, 64> memory{};
  std::array<torch_tensor, 4> tensors;
  std::array<torch_block, 4> blocks;
  torch_run run(device_, nullptr, memory, tensors, blocks);
  EXPECT_NE(empty({16}), nullptr);
  EXPECT_EQ(empty({1}), nullptr);
  EXPECT_STREQ(run.met().name, "TORCH_OUT_OF_SCRATCH");
}

TEST_F(OwnTorch, KeepsWhatWasMadeWithTheModel) {
  handle constant = nullptr;
  {
    const torch_setting setting(device_);
    constant = empty({4});
    ASSERT_NE(constant, nullptr);
    EXPECT_EQ(device_.allocations, 1);
  }
  // Threads that run the model at once read it, and count nothing in it.
  std::vector<std::thread> threads;
  for (int each = 0; each < 3; ++each) {
    threads.emplace_back([&] {
      std::array<torch_tensor, 2> tensors;
      for (int turn = 0; turn < 1000; ++turn) {
        const torch_run run(device_, nullptr, {}, tensors, {});
        const handle seen = view(constant, {2}, 2);
        EXPECT_EQ(seen->first(), constant->first() + 8);
        drop(seen);
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(device_.allocations, 1);
  drop(constant);
  EXPECT_EQ(device_.allocations, 0);
}

TEST_F(OwnTorch, ChecksProducts) {
  torch_run run(device_, nullptr);
  const auto addmm = function<std::int32_t(handle, handle, handle, handle, double, double)>("cpu_addmm_out");
  EXPECT_EQ(addmm(empty({2, 4}), empty({4}), empty({2, 3}), empty({3, 4}), 1, 1), 0);
  EXPECT_THAT(device_.added, ElementsAre(0, 1));
  EXPECT_EQ(addmm(empty({2, 4}), empty({2, 1}), empty({2, 3}), empty({3, 4}), 1, 1), 0);
  EXPECT_THAT(device_.added, ElementsAre(1, 0));
  EXPECT_EQ(addmm(empty({2, 4}), empty({3}), empty({2, 3}), empty({3, 4}), 1, 1), 1);
  EXPECT_STREQ(run.met().name, "TORCH_SIZES_DIFFER");
  EXPECT_EQ(addmm(empty({2, 4}), empty({4}), empty({2, 3}), empty({4, 4}), 1, 1), 1);
  EXPECT_EQ(addmm(empty({2, 4}), empty({4}), empty({2, 3}, torch_type::f64), empty({3, 4}), 1, 1), 1);
  EXPECT_THAT(device_.products, ElementsAre(0, 1));
}

TEST_F(OwnTorch, KnowsTheSizeOfAConvolution) {
  torch_run run(device_, nullptr);
  const auto convolution =
      function<std::int32_t(handle, handle, handle*, const std::int64_t*, std::int64_t, const std::int64_t*,
                            std::int64_t, const std::int64_t*, std::int64_t, std::int32_t, const std::int64_t*,
                            std::int64_t, std::int64_t, handle*)>("cuda_convolution");
  const shape two{2};
  const shape one{1};
  const shape none{0};
  handle made = nullptr;
  const auto call = [&](const shape& input, const shape& weight, bool transposed, std::int64_t groups) {
    return convolution(empty(input), empty(weight), nullptr, two.data(), 1, one.data(), 1, one.data(), 1,
                       transposed ? 1 : 0, none.data(), 1, groups, &made);
  };
  EXPECT_EQ(call({3, 4, 10}, {6, 2, 5}, false, 2), 0);
  EXPECT_THAT(device_.convolved, ElementsAre(3, 6, 4));
  EXPECT_EQ(call({3, 4, 10}, {4, 2, 5}, true, 2), 0);
  EXPECT_THAT(device_.convolved, ElementsAre(3, 4, 21));
  EXPECT_EQ(call({3, 4, 10}, {6, 4, 5}, false, 2), 1);
  EXPECT_EQ(call({3, 4, 2}, {6, 2, 5}, false, 2), 1);
  EXPECT_STREQ(run.met().name, "TORCH_CONVOLUTION_SIZES");
}

TEST(OwnTorchFunctions, HaveTheNamesOfPyTorchs) {
  EXPECT_NE(own_torch_function("aoti_torch_cpu_mm_out"), nullptr);
  EXPECT_EQ(own_torch_function("aoti_torch_cpu_mm_out"), own_torch_function("aoti_torch_cuda_mm_out"));
  for (const char* const name : {"aoti_torch_mm_out", "aoti_torch_cpu_", "aoti_torch_proxy_executor_call_function",
                                 "Sleef_expf16", "Sleef_", "Sleef_f_", "malloc", ""}) {
    EXPECT_EQ(own_torch_function(name), nullptr) << name;
  }
}

// -- what the host computes -------------------------------------------------------------------------------------------

/// A tensor of random numbers, whose elements lie as `strides` say.
class numbers {
 public:
  numbers(const shape& sizes, const shape& strides) : elements_(200) {
    for (std::size_t each = 0; each < elements_.size(); ++each) {
      elements_[each] = static_cast<float>(each * 37 % 19) - 9;
    }
    tensor_.data = reinterpret_cast<std::byte*>(elements_.data());
    tensor_.bytes = elements_.size() * sizeof(float);
    tensor_.extents = static_cast<std::int64_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), tensor_.sizes.begin());
    std::copy(strides.begin(), strides.end(), tensor_.strides.begin());
  }
  [[nodiscard]] handle get() noexcept { return &tensor_; }
  [[nodiscard]] float& at(const shape& place) {
    const std::int64_t offset =
        std::inner_product(place.begin(), place.end(), tensor_.strides.begin(), std::int64_t{0});
    return elements_[static_cast<std::size_t>(offset)];
  }

 private:
  std::vector<float> elements_;
  torch_tensor tensor_;
};

/// How a matrix of so many rows and columns may lie: row by row, column by column, and with gaps everywhere.
std::vector<shape> layouts_of(std::int64_t rows, std::int64_t columns) {
  return {{columns, 1}, {columns + 2, 1}, {1, rows}, {1, rows + 1}, {2 * columns, 2}};
}

TEST(HostTorch, MultipliesMatricesHoweverTheyLie) {
  const std::unique_ptr<torch_device> device = make_host_torch();
  torch_run run(*device, nullptr);
  const auto addmm = function<std::int32_t(handle, handle, handle, handle, double, double)>("cpu_addmm_out");
  constexpr std::int64_t inner = 4;
  constexpr std::int64_t columns = 5;
  for (const std::int64_t rows : {1, 3}) {
    for (const shape& of_left : layouts_of(rows, inner)) {
      for (const shape& of_right : layouts_of(inner, columns)) {
        for (const shape& of_out : layouts_of(rows, columns)) {
          numbers left({rows, inner}, of_left);
          numbers right({inner, columns}, of_right);
          numbers bias({columns}, {2});
          numbers out({rows, columns}, of_out);
          if (addmm(out.get(), bias.get(), left.get(), right.get(), 2, 0.5) != 0) {
            ASSERT_STREQ(run.met().name, "OPENBLAS_IS_MISSING");
            GTEST_SKIP() << "OpenBLAS is not installed";
          }
          for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t column = 0; column < columns; ++column) {
              double expected = 2 * bias.at({column});
              for (std::int64_t each = 0; each < inner; ++each) {
                expected += 0.5 * left.at({row, each}) * right.at({each, column});
              }
              ASSERT_NEAR(out.at({row, column}), expected, 1e-4)
                  << testing::PrintToString(of_left) << testing::PrintToString(of_right)
                  << testing::PrintToString(of_out) << " at " << row << ", " << column;
            }
          }
        }
      }
    }
  }
}

TEST(HostTorch, MultipliesPairsOfMatrices) {
  const std::unique_ptr<torch_device> device = make_host_torch();
  torch_run run(*device, nullptr);
  numbers left({3, 2, 4}, {8, 1, 2});
  numbers right({3, 4, 2}, {2, 6, 1});
  numbers out({3, 2, 2}, {4, 2, 1});
  if (function<std::int32_t(handle, handle, handle)>("cpu_bmm_out")(out.get(), left.get(), right.get()) != 0) {
    ASSERT_STREQ(run.met().name, "OPENBLAS_IS_MISSING");
    GTEST_SKIP() << "OpenBLAS is not installed";
  }
  for (std::int64_t each = 0; each < 12; ++each) {
    const shape place{each / 4, each / 2 % 2, each % 2};
    double expected = 0;
    for (std::int64_t k = 0; k < 4; ++k) {
      expected += static_cast<double>(left.at({place[0], place[1], k})) * right.at({place[0], k, place[2]});
    }
    EXPECT_NEAR(out.at(place), expected, 1e-4);
  }
}

/// A tensor without gaps.
torch_tensor tensor_of(std::vector<float>& elements, const shape& sizes) {
  torch_tensor made;
  made.data = reinterpret_cast<std::byte*>(elements.data());
  made.bytes = elements.size() * sizeof(float);
  made.extents = static_cast<std::int64_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), made.sizes.begin());
  std::int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    made.strides[axis] = std::exchange(stride, stride * sizes[axis]);
  }
  return made;
}

/// A convolution whose sums are of thousands of products, on random numbers.
struct long_convolution {
  static constexpr std::size_t channels = 128;
  static constexpr std::size_t taps = 64;
  static constexpr std::size_t filters = 16;
  static constexpr std::size_t length = 70;
  static constexpr std::size_t results = length - taps + 1;

  random_input random;
  std::vector<float> x = random.normal(channels * length);
  std::vector<float> weights = random.normal(filters * channels * taps);
  std::vector<float> bias = random.normal(filters);

  /// Root mean squares of the errors of `y`, and of sums in f32 that take one product after the other.
  [[nodiscard]] std::pair<double, double> errors(const float* y) const {
    double off = 0;
    double off_one_by_one = 0;
    for (std::size_t result = 0; result < filters * results; ++result) {
      const std::size_t filter = result / results;
      double exact = bias[filter];
      float sum = bias[filter];
      for (std::size_t each = 0; each < channels * taps; ++each) {
        const float from = x[each / taps * length + result % results + each % taps];
        const float factor = weights[filter * channels * taps + each];
        exact += static_cast<double>(from) * factor;
        sum += from * factor;
      }
      off += std::pow(y[result] - exact, 2);
      off_one_by_one += std::pow(sum - exact, 2);
    }
    constexpr double count = filters * results;
    return {std::sqrt(off / count), std::sqrt(off_one_by_one / count)};
  }
};

TEST(HostTorch, ConvolvesImagesOfOneColumn) {
  long_convolution data;
  SCOPED_TRACE(data.random.trace());
  // Networks of sound often have such images.
  torch_tensor input = tensor_of(data.x, {1, data.channels, data.length, 1});
  torch_tensor weight = tensor_of(data.weights, {data.filters, data.channels, data.taps, 1});
  torch_tensor shift = tensor_of(data.bias, {data.filters});
  weight.is_constant = shift.is_constant = true;

  const std::unique_ptr<torch_device> device = make_host_torch();
  torch_run run(*device, nullptr);
  const auto convolution =
      function<std::int32_t(handle, handle, handle*, const std::int64_t*, std::int64_t, const std::int64_t*,
                            std::int64_t, const std::int64_t*, std::int64_t, std::int32_t, const std::int64_t*,
                            std::int64_t, std::int64_t, handle*)>("cpu_convolution");
  const shape ones{1, 1};
  const shape zeros{0, 0};
  handle bias_handle = &shift;
  handle made = nullptr;
  if (convolution(&input, &weight, &bias_handle, ones.data(), 2, zeros.data(), 2, ones.data(), 2, 0, zeros.data(), 2, 1,
                  &made) != 0) {
    ASSERT_STREQ(run.met().name, "ONEDNN");
    GTEST_SKIP() << "oneDNN is not installed";
  }
  // Which order of summing is chosen depends on its time: whatever it is, it is hardly worse than one by one.
  const auto [off, off_one_by_one] = data.errors(reinterpret_cast<const float*>(made->first()));
  EXPECT_LT(off, 1.5 * off_one_by_one);
}

TEST(OnednnConvolution, SumsInPartsNearerThanOneByOne) {
  std::shared_ptr<const onednn_library> library;
  try {
    library = load_onednn();
  } catch (const std::runtime_error& error) {
    GTEST_SKIP() << error.what();
  }
  const long_convolution data;
  SCOPED_TRACE(data.random.trace());
  const convolution_shape shape{.channels = data.channels,
                                .filters = data.filters,
                                .size = {data.length, 1},
                                .filter_size = {data.taps, 1},
                                .bias = true};
  const onednn_convolution convolution(library, shape, data.weights.data(), data.bias.data(),
                                       std::numeric_limits<double>::infinity());
  struct alignas(64) line {
    std::array<std::byte, 64> bytes;
  };
  std::vector<line> workspace(convolution.workspace_bytes() / sizeof(line) + 1);
  std::vector<float> y(data.filters * data.results);
  EXPECT_FALSE(convolution.run(workspace.data(), data.x.data(), nullptr, nullptr, y.data()));
  const auto [off, off_one_by_one] = data.errors(y.data());
  EXPECT_LT(off, 0.6 * off_one_by_one);
}

TEST(HostTorch, CopiesAndFillsHoweverTensorsLie) {
  const std::unique_ptr<torch_device> device = make_host_torch();
  torch_run run(*device, nullptr);
  numbers from({2, 1, 4}, {4, 4, 1});
  numbers to({2, 3, 4}, {1, 8, 2});
  EXPECT_EQ(function<std::int32_t(handle, handle, std::int32_t)>("copy_")(to.get(), from.get(), 0), 0);
  for (std::int64_t each = 0; each < 24; ++each) {
    const shape place{each / 12, each / 4 % 3, each % 4};
    EXPECT_EQ(to.at(place), from.at({place[0], 0, place[2]}));
  }
  numbers sparse({2, 2}, {20, 3});
  EXPECT_EQ(function<std::int32_t(handle, double)>("cpu_fill__Scalar")(sparse.get(), 7.5), 0);
  EXPECT_THAT((std::vector{sparse.at({0, 0}), sparse.at({0, 1}), sparse.at({1, 0}), sparse.at({1, 1})}),
              testing::Each(7.5F));
}

// -- the parameters of a stage ----------------------------------------------------------------------------------------

parameters stage_of(const model_package& package, const entries& more = {}) {
  parameters made = settings_of(more);
  made.set("file",
           std::make_shared<const code_file>(code_file{.name = "m.pt2",
                                                       .path = "/etc/m.pt2",
                                                       .text = "",
                                                       .package = std::make_shared<const model_package>(package)}));
  return made;
}

model_tensor tensor(const char* name, const shape& sizes) {
  return {name, {element_type::f32, sizes.empty() ? shape{1} : sizes, false}, sizes};
}

parameters::value names(const entries& given) {
  return std::make_shared<const parameters>(settings_of(given));
}

TEST(ModelStage, ReadsTheInputsByTheirNames) {
  model_package package;
  package.inputs = {tensor("x", {4}), tensor("gain", {})};
  package.outputs = {tensor("y", {4}), tensor("level", {})};
  // The stage's inputs stand in the order of the names.
  const std::vector<tensor_spec> inputs{package.inputs[1].spec, package.inputs[0].spec};
  const parameters stage =
      stage_of(package, {{"inputs", names({{"x", std::string("input")}, {"gain", std::string("g")}})}});
  EXPECT_THAT(parse_model(stage, inputs).order, ElementsAre(1, 0));
  EXPECT_EQ(infer_model(stage, inputs), package.outputs[0].spec);
  EXPECT_THAT(model_outputs(stage, inputs), ElementsAre(operator_output{"y", package.outputs[0].spec},
                                                        operator_output{"level", package.outputs[1].spec}));
  EXPECT_FALSE(model_session(stage, inputs));
  expect_refused("model", stage, {inputs[1], inputs[0]}, "inputs",
                 "the model's input 'x' is f32[4], and what it reads is f32[1]");
}

TEST(ModelStage, KeepsStateByWholeFrames) {
  model_package package;
  package.inputs = {tensor("x", {4})};
  package.outputs = {tensor("y", {4})};
  package.state = tensor("state", {3});
  const std::vector<tensor_spec> inputs{package.inputs[0].spec};
  ASSERT_TRUE(model_session(stage_of(package), inputs));
  EXPECT_TRUE(model_session(stage_of(package), inputs)->whole_frames);
  EXPECT_EQ(state_bytes_of_model(stage_of(package)), 12U);
  EXPECT_TRUE(model_outputs(stage_of(package), inputs).empty());
}

// -- variables of threads ---------------------------------------------------------------------------------------------

TEST(ThreadVariables, AreDestroyedNewestFirstWhereTheirThreadEnds) {
  struct variable {
    std::vector<int>* destroyed;
    int number;
  };
  const auto destroy = [](void* address) {
    const auto& ended = *static_cast<const variable*>(address);
    ended.destroyed->push_back(ended.number);
  };
  static int library = 0;  // an address of this program, which is not unloaded
  std::vector<int> first;
  std::vector<int> second;
  std::array<variable, 4> all{{{&first, 1}, {&first, 2}, {&second, 3}, {&second, 4}}};
  const auto make = [&](std::size_t from) {
    EXPECT_EQ(destroy_at_thread_exit(destroy, &all[from], &library), 0);
    EXPECT_EQ(destroy_at_thread_exit(destroy, &all[from + 1], &library), 0);
  };
  std::thread one([&] { make(0); });
  std::thread other([&] { make(2); });
  one.join();
  other.join();
  EXPECT_THAT(first, ElementsAre(2, 1));
  EXPECT_THAT(second, ElementsAre(4, 3));
}

}  // namespace
}  // namespace penstock
