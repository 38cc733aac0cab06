// Convolutions of the CUDA module by a cuDNN that computes on the host: what Penstock asks of cuDNN's backend API,
// which engines it takes, and how it cuts a batch.
#include "kernels/cudnn.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "kernels/convolution_steps.hpp"
#include "kernels/convolve.hpp"
#include "kernels/kernel_queue.hpp"
#include "tests/kernels/operator_sample.hpp"

// The CUDA runtime, of which little is called: device memory is ordinary memory, and a stream is nothing.
extern "C" {
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*way*/) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned /*flags*/) {
  static int stream = 0;
  *made = reinterpret_cast<cudaStream_t>(&stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) {
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* made) {
  static int event = 0;
  *made = reinterpret_cast<cudaEvent_t>(&event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) {
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t /*stream*/) {
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t /*start*/, cudaEvent_t /*stop*/) {
  *milliseconds = 1.0F;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t /*error*/) {
  return "cudaErrorUnknown";
}
}

namespace penstock {

// The kernels that follow a convolution, in f32.
fault add_bias_and_activate(cudaStream_t /*stream*/, element_type /*type*/, convolution_activation activation,
                            const void* bias, void* y, std::int64_t frames, std::int64_t filters,
                            std::int64_t pixels) noexcept {
  auto* const numbers = static_cast<float*>(y);
  for (std::int64_t at = 0; at < frames * filters * pixels; ++at) {
    numbers[at] += bias == nullptr ? 0.0F : static_cast<const float*>(bias)[at / pixels % filters];
    if (activation == convolution_activation::gelu_erf) {
      numbers[at] *= 0.5F * (1.0F + std::erf(numbers[at] / std::sqrt(2.0F)));
    }
  }
  return {};
}

fault change_precision(void* /*stream*/, element_type /*from*/, element_type /*to*/, const void* /*input*/,
                       void* /*output*/, std::int64_t /*count*/) noexcept {
  return fault{"cudaErrorNotSupported"};
}

namespace {

class fake_queue final : public kernel_queue {
 public:
  fault add(const kernel_call& /*call*/) noexcept override { return fault{"cudaErrorNotSupported"}; }

 private:
  fault flush() noexcept override { return {}; }
  [[nodiscard]] cudaStream_t stream() const noexcept override {
    return reinterpret_cast<cudaStream_t>(const_cast<fake_queue*>(this));
  }
};

/// What the fake tells of itself.
class fake_cudnn {
 public:
  fake_cudnn() : library_(::dlopen(PENSTOCK_FAKE_CUDNN, RTLD_NOW | RTLD_LOCAL)) {
    ::setenv("PENSTOCK_CUDNN", PENSTOCK_FAKE_CUDNN, 1);
  }

  [[nodiscard]] std::size_t last_engine() const { return ask<std::size_t>("fake_cudnn_last_engine"); }
  [[nodiscard]] int runs() const { return ask<int>("fake_cudnn_runs"); }
  [[nodiscard]] int descriptors() const { return ask<int>("fake_cudnn_descriptors"); }

 private:
  template <class Answer>
  [[nodiscard]] Answer ask(const char* what) const {
    return reinterpret_cast<Answer (*)()>(::dlsym(library_, what))();
  }

  void* library_;
};

class Cudnn : public testing::Test {
 protected:
  /// The results of a batch in which every number of frame f is f, with filters of ones.
  std::vector<float> run(operation& subject, std::int64_t frames, std::int64_t elements, std::int64_t results) {
    std::vector<float> x;
    for (std::int64_t frame = 0; frame < frames; ++frame) {
      x.insert(x.end(), static_cast<std::size_t>(elements), static_cast<float>(frame));
    }
    std::vector<float> y(static_cast<std::size_t>(frames * results), -1.0F);
    std::vector<std::byte> scratch(subject.scratch_bytes() + 1);
    const void* const input = x.data();
    const fault failed = subject.run(&queue_, {.inputs = {&input, 1},
                                               .output = y.data(),
                                               .scratch = scratch.data(),
                                               .extent = {.frames = frames},
                                               .session = {}});
    EXPECT_FALSE(failed) << failed.name;
    return y;
  }

  [[nodiscard]] static std::unique_ptr<operation> make(const entries& given, std::int64_t max_frames) {
    parameters settings = settings_of(given);
    settings.set("weights", number_file::of({2, 1, 3}, std::vector<float>(6, 1.0F)));
    const tensor_spec input{.shape = {8}};
    return make_convolve_cuda({.settings = settings, .inputs = {&input, 1}, .max_frames = max_frames});
  }

  fake_cudnn cudnn_;
  fake_queue queue_;
};

TEST_F(Cudnn, ComputesEachFrameOfABatchOfAnySize) {
  const auto subject = make({}, 70);
  for (const std::int64_t frames : {1, 2, 3, 5, 31, 33, 63, 64, 65, 70}) {
    const std::vector<float> y = run(*subject, frames, 8, 12);
    for (std::size_t at = 0; at < y.size(); ++at) {
      ASSERT_EQ(y[at], 3.0F * static_cast<float>(at / 12)) << at << " of " << frames << " frames";
    }
  }
}

TEST_F(Cudnn, TakesTwoRunsForABatchAtMost) {
  const auto subject = make({}, 64);
  for (std::int64_t frames = 1; frames <= 64; ++frames) {
    const int before = cudnn_.runs();
    static_cast<void>(run(*subject, frames, 8, 12));
    EXPECT_LE(cudnn_.runs() - before, 2) << frames;
  }
}

TEST_F(Cudnn, TakesEnginesThatRoundFactorsWhereThatIsAskedForOnly) {
  static_cast<void>(run(*make({}, 1), 1, 8, 12));
  EXPECT_EQ(cudnn_.last_engine(), 5U);
  static_cast<void>(run(*make({{"compute", std::string{"tf32"}}}, 1), 1, 8, 12));
  EXPECT_EQ(cudnn_.last_engine(), 0U);
}

TEST_F(Cudnn, AddsBiasAndActivationWhetherAnEngineTakesThemOrNot) {
  const std::vector<float> bias{1.0F, -4.0F};
  const auto relu = make({{"bias", number_file::of({2}, bias)}, {"activation", std::string{"relu"}}}, 2);
  const std::vector<float> y = run(*relu, 2, 8, 12);
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_EQ(y[6], 0.0F);
  EXPECT_EQ(y[12], 4.0F);
  EXPECT_EQ(y[18], 0.0F);
  const auto gelu = make({{"bias", number_file::of({2}, bias)}, {"activation", std::string{"gelu_erf"}}}, 2);
  const std::vector<float> z = run(*gelu, 2, 8, 12);
  EXPECT_NEAR(z[0], 0.8413447F, 1e-5F);
  EXPECT_NEAR(z[12], 4.0F, 1e-3F);
  EXPECT_NEAR(z[18], -0.1586553F, 1e-5F);
}

TEST_F(Cudnn, KeepsNoMoreDescriptorsThanTheLastPointersNeed) {
  auto subject = make({}, 1);
  for (int each = 0; each < 10; ++each) {
    static_cast<void>(run(*subject, 1, 8, 12));
  }
  const int before = cudnn_.descriptors();
  for (int each = 0; each < 200; ++each) {
    static_cast<void>(run(*subject, 1, 8, 12));
  }
  EXPECT_LE(cudnn_.descriptors(), before + 64);
}

TEST_F(Cudnn, GivesEveryDescriptorBack) {
  const int before = cudnn_.descriptors();
  auto subject = make({}, 8);
  static_cast<void>(run(*subject, 7, 8, 12));
  EXPECT_GT(cudnn_.descriptors(), before);
  subject.reset();
  EXPECT_EQ(cudnn_.descriptors(), before);
}

TEST_F(Cudnn, NamesTheLibraryThatIsMissing) {
  ::setenv("PENSTOCK_CUDNN", "/nowhere/libcudnn.so.9", 1);
  try {
    static_cast<void>(cudnn_library::load());
    FAIL();
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("/nowhere/libcudnn.so.9"), std::string::npos) << text;
    EXPECT_NE(text.find("libcudnn9-cuda-13"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace penstock
