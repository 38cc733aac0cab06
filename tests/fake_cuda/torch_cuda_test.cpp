#include "kernels/torch_cuda.hpp"

#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using handle = torch_tensor*;
using extents = std::vector<std::int64_t>;

template <class Function>
Function* function_of(const char* name) {
  const void* const found = own_cuda_function(name);
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(const_cast<void*>(found));
}

using make_function = std::int32_t(void*, std::int64_t, const std::int64_t*, const std::int64_t*, std::int64_t,
                                   std::int32_t, std::int32_t, std::int32_t, handle*);

/// A tensor of f32 in memory of the fake device, with values of its own.
class numbers {
 public:
  numbers(extents sizes, extents strides, std::int64_t offset = 0)
      : sizes_(std::move(sizes)), strides_(std::move(strides)) {
    std::int64_t last = offset;
    for (std::size_t axis = 0; axis < sizes_.size(); ++axis) {
      last += (sizes_[axis] - 1) * strides_[axis];
    }
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, static_cast<std::size_t>(last + 1) * sizeof(float)), cudaSuccess);
    values_ = static_cast<float*>(memory);
    for (std::int64_t each = 0; each <= last; ++each) {
      values_[each] = static_cast<float>(random_() % 17) - 8;
    }
    first_ = values_ + offset;
  }
  explicit numbers(extents sizes) : numbers(sizes, row_major(sizes)) {}
  numbers(const numbers&) = delete;
  numbers& operator=(const numbers&) = delete;
  ~numbers() { EXPECT_EQ(cudaFree(values_), cudaSuccess); }

  /// For a function that a package calls; it is deleted in the run.
  [[nodiscard]] handle tensor() const {
    handle made = nullptr;
    EXPECT_EQ(function_of<make_function>("aoti_torch_create_tensor_from_blob")(
                  first_, static_cast<std::int64_t>(sizes_.size()), sizes_.data(), strides_.data(), 0,
                  static_cast<std::int32_t>(torch_type::f32), torch_cuda, 0, &made),
              0);
    return made;
  }
  [[nodiscard]] float at(std::initializer_list<std::int64_t> index) const {
    std::int64_t place = 0;
    std::size_t axis = 0;
    for (const std::int64_t each : index) {
      place += each * strides_[axis++];
    }
    return first_[place];
  }

 private:
  static extents row_major(const extents& sizes) {
    extents strides(sizes.size(), 1);
    for (std::size_t axis = sizes.size() - 1; axis-- > 0;) {
      strides[axis] = strides[axis + 1] * sizes[axis + 1];
    }
    return strides;
  }

  static inline std::mt19937 random_{29};
  extents sizes_;
  extents strides_;
  float* values_ = nullptr;
  float* first_ = nullptr;
};

/// Runs work as a model does: once to prepare, then in memory of its own, where nothing may be chosen again.
class TorchOnCuda : public ::testing::Test {
 protected:
  TorchOnCuda() { EXPECT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess); }
  ~TorchOnCuda() override { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }

  void run_twice(const std::function<void()>& work) {
    torch_needs needs;
    {
      torch_run run(device_, stream_);
      work();
      EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
      EXPECT_STREQ(run.met().name, nullptr);
      needs = run.needs();
    }
    EXPECT_EQ(device_.refusal(), "");
    std::byte* const memory = device_.allocate(needs.bytes);
    std::vector<torch_tensor> tensors(needs.tensors);
    std::vector<torch_block> blocks(needs.blocks);
    {
      torch_run run(device_, stream_, {memory, needs.bytes}, tensors, blocks);
      work();
      EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
      EXPECT_STREQ(run.met().name, nullptr);
    }
    device_.release(memory);
  }

  cuda_torch_device device_{std::make_shared<torch_cuda_libraries>()};
  cudaStream_t stream_ = nullptr;
};

/// out = beta · add + alpha · left × right, with each operand as it lies in memory.
void expect_addmm(const std::function<void(const std::function<void()>&)>& run_twice, const numbers& out,
                  const numbers* add, bool add_is_a_row, const numbers& left, const numbers& right, std::int64_t m,
                  std::int64_t n, std::int64_t k, double beta, double alpha) {
  run_twice([&] {
    using addmm = std::int32_t(handle, handle, handle, handle, double, double);
    using mm = std::int32_t(handle, handle, handle);
    const std::int32_t met =
        add == nullptr ? function_of<mm>("aoti_torch_cuda_mm_out")(out.tensor(), left.tensor(), right.tensor())
                       : function_of<addmm>("aoti_torch_cuda_addmm_out")(out.tensor(), add->tensor(), left.tensor(),
                                                                         right.tensor(), beta, alpha);
    EXPECT_EQ(met, 0);
  });
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (std::int64_t inner = 0; inner < k; ++inner) {
        sum += static_cast<double>(left.at({row, inner})) * static_cast<double>(right.at({inner, column}));
      }
      if (add != nullptr) {
        sum = alpha * sum + beta * static_cast<double>(add_is_a_row ? add->at({column}) : add->at({row, column}));
      }
      ASSERT_EQ(out.at({row, column}), static_cast<float>(sum)) << row << ", " << column;
    }
  }
}

TEST_F(TorchOnCuda, MultipliesMatricesHoweverTheyLie) {
  const auto run = [this](const std::function<void()>& work) { run_twice(work); };
  const numbers plain({5, 7});
  const numbers turned({5, 7}, {1, 5});
  const numbers wide({5, 7}, {11, 1});
  const numbers unaligned({5, 7}, {7, 1}, 1);
  const numbers scattered({5, 7}, {21, 3});
  const numbers repeated({5, 7}, {0, 1});
  const numbers right({7, 3});
  const numbers right_turned({7, 3}, {1, 7});
  const numbers right_scattered({7, 3}, {9, 2});
  for (const numbers* left : {&plain, &turned, &wide, &unaligned, &scattered, &repeated}) {
    for (const numbers* other : {&right, &right_turned, &right_scattered}) {
      const numbers out({5, 3});
      expect_addmm(run, out, nullptr, false, *left, *other, 5, 3, 7, 0, 1);
    }
  }
  const numbers out_turned({5, 3}, {1, 5});
  expect_addmm(run, out_turned, nullptr, false, plain, right, 5, 3, 7, 0, 1);
  const numbers out_wide({5, 3}, {8, 1});
  expect_addmm(run, out_wide, nullptr, false, turned, right_turned, 5, 3, 7, 0, 1);
  const numbers one_row({1, 7}, {100, 1});
  const numbers one_column({7, 1}, {1, 50});
  const numbers single({1, 1}, {30, 40});
  expect_addmm(run, single, nullptr, false, one_row, one_column, 1, 1, 7, 0, 1);
}

TEST_F(TorchOnCuda, AddsARowOrAMatrix) {
  const auto run = [this](const std::function<void()>& work) { run_twice(work); };
  const numbers left({4, 6});
  const numbers right({6, 3});
  const numbers row({3});
  const numbers row_unaligned({3}, {1}, 1);
  const numbers row_scattered({3}, {2});
  const numbers matrix({4, 3});
  const numbers matrix_turned({4, 3}, {1, 4});
  for (const double beta : {1.0, 0.5}) {
    for (const double alpha : {1.0, -2.0}) {
      const numbers out({4, 3});
      for (const numbers* add : {&row, &row_unaligned, &row_scattered}) {
        expect_addmm(run, out, add, true, left, right, 4, 3, 6, beta, alpha);
      }
      for (const numbers* add : {&matrix, &matrix_turned}) {
        expect_addmm(run, out, add, false, left, right, 4, 3, 6, beta, alpha);
      }
    }
  }
}

TEST_F(TorchOnCuda, MultipliesPairsOfMatrices) {
  using bmm = std::int32_t(handle, handle, handle);
  const numbers left({3, 4, 5}, {5, 15, 1});  // as of a transposed tensor
  const numbers right({3, 5, 2}, {10, 1, 5});
  const numbers out({3, 4, 2});
  run_twice(
      [&] { EXPECT_EQ(function_of<bmm>("aoti_torch_cuda_bmm_out")(out.tensor(), left.tensor(), right.tensor()), 0); });
  for (std::int64_t pair = 0; pair < 3; ++pair) {
    for (std::int64_t row = 0; row < 4; ++row) {
      for (std::int64_t column = 0; column < 2; ++column) {
        float sum = 0;
        for (std::int64_t inner = 0; inner < 5; ++inner) {
          sum += left.at({pair, row, inner}) * right.at({pair, inner, column});
        }
        ASSERT_EQ(out.at({pair, row, column}), sum);
      }
    }
  }
}

TEST_F(TorchOnCuda, ConvolvesAlongOneAxis) {
  using convolution = std::int32_t(handle, handle, handle*, const std::int64_t*, std::int64_t, const std::int64_t*,
                                   std::int64_t, const std::int64_t*, std::int64_t, std::int32_t, const std::int64_t*,
                                   std::int64_t, std::int64_t, handle*);
  using pointer = std::int32_t(handle, void**);
  const numbers input({2, 4, 9}, {36, 1, 4});  // channels last
  const numbers weight({6, 2, 3});
  const numbers bias({6});
  const std::int64_t stride = 2;
  const std::int64_t padding = 1;
  const std::int64_t dilation = 1;
  const std::int64_t none = 0;
  std::vector<float> got(std::size_t{2} * 6 * 5);
  run_twice([&] {
    handle biases = bias.tensor();
    handle made = nullptr;
    ASSERT_EQ(
        function_of<convolution>("aoti_torch_cuda_convolution")(input.tensor(), weight.tensor(), &biases, &stride, 1,
                                                                &padding, 1, &dilation, 1, 0, &none, 1, 2, &made),
        0);
    void* data = nullptr;
    ASSERT_EQ(function_of<pointer>("aoti_torch_get_data_ptr")(made, &data), 0);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    std::memcpy(got.data(), data, got.size() * sizeof(float));
    ASSERT_EQ(function_of<std::int32_t(handle)>("aoti_torch_delete_tensor_object")(made), 0);
  });
  for (std::int64_t frame = 0; frame < 2; ++frame) {
    for (std::int64_t filter = 0; filter < 6; ++filter) {
      for (std::int64_t at = 0; at < 5; ++at) {
        float sum = bias.at({filter});
        for (std::int64_t channel = 0; channel < 2; ++channel) {
          for (std::int64_t tap = 0; tap < 3; ++tap) {
            const std::int64_t from = 2 * at - 1 + tap;
            sum += from < 0 || from >= 9
                       ? 0
                       : input.at({frame, filter / 3 * 2 + channel, from}) * weight.at({filter, channel, tap});
          }
        }
        ASSERT_EQ(got[static_cast<std::size_t>((frame * 6 + filter) * 5 + at)], sum);
      }
    }
  }
}

TEST_F(TorchOnCuda, CopiesAndFillsAnyStrides) {
  using copy = std::int32_t(handle, handle, std::int32_t);
  const numbers from({3, 4, 5}, {1, 3, 12});
  const numbers to({3, 4, 5}, {40, 10, 2});
  run_twice([&] { EXPECT_EQ(function_of<copy>("aoti_torch_copy_")(to.tensor(), from.tensor(), 0), 0); });
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      for (std::int64_t k = 0; k < 5; ++k) {
        ASSERT_EQ(to.at({i, j, k}), from.at({i, j, k}));
      }
    }
  }
  using fill = std::int32_t(handle, double);
  run_twice([&] { EXPECT_EQ(function_of<fill>("aoti_torch_cuda_fill__Scalar")(to.tensor(), 2.5), 0); });
  EXPECT_EQ(to.at({2, 3, 4}), 2.5F);
}

TEST_F(TorchOnCuda, LeavesResultsWhereTheyAreAndSaysWhere) {
  using copy = std::int32_t(handle, handle, std::int32_t);
  const numbers from({4, 5});
  const numbers turned({4, 5}, {1, 4});
  std::array<float, 20> one{};
  std::array<float, 20> other{};
  std::array<void*, 2> outputs{one.data(), other.data()};
  const std::array<std::int64_t, 2> sizes{4, 5};
  const std::array<std::int64_t, 2> strides{5, 1};
  device_.take_outputs(outputs);
  const auto target = [&](void* data) {
    handle made = nullptr;
    EXPECT_EQ(
        function_of<make_function>("aoti_torch_create_tensor_from_blob")(
            data, 2, sizes.data(), strides.data(), 0, static_cast<std::int32_t>(torch_type::f32), torch_cuda, 0, &made),
        0);
    return made;
  };
  run_twice([&] {
    outputs = {one.data(), other.data()};
    EXPECT_EQ(function_of<copy>("aoti_torch_copy_")(target(one.data()), from.tensor(), 1), 0);
    EXPECT_EQ(function_of<copy>("aoti_torch_copy_")(target(other.data()), turned.tensor(), 1), 0);
  });
  device_.take_outputs({});
  EXPECT_EQ(static_cast<float*>(outputs[0])[7], from.at({1, 2}));
  EXPECT_NE(outputs[0], one.data());
  EXPECT_EQ(outputs[1], other.data());
  EXPECT_EQ(other[7], turned.at({1, 2}));
}

TEST(FunctionsForCuda, AreOursTheRuntimesAndTheDrivers) {
  for (const char* each :
       {"aoti_torch_empty_strided", "aoti_torch_cuda_addmm_out", "aoti_torch_create_cuda_stream_guard", "cudaMalloc",
        "cudaEventRecord", "cudaGetErrorString"}) {
    EXPECT_NE(own_cuda_function(each), nullptr) << each;
  }
  for (const char* each : {"aoti_torch_cuda__fused_rms_norm", "cudaNoSuchFunction", "cuNoSuchFunction", "cut"}) {
    EXPECT_EQ(own_cuda_function(each), nullptr) << each;
  }
  const std::size_t before = torch_cuda_allocated();
  void* memory = nullptr;
  EXPECT_EQ(function_of<cudaError_t(void**, std::size_t)>("cudaMalloc")(&memory, 1000), cudaSuccess);
  EXPECT_EQ(torch_cuda_allocated(), before + 1000);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

}  // namespace
}  // namespace penstock
