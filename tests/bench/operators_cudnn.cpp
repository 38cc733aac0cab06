#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "kernels/convolve.hpp"
#include "kernels/kernel_queue.hpp"
#include "tests/bench/operators_cuda.hpp"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif

namespace penstock::bench {
namespace {

/// What cuDNN's search measured of one of its algorithms.
struct measured_algorithm {
  int algorithm = 0;
  int status = 0;
  float milliseconds = 0;
  std::size_t workspace = 0;
  int determinism = 0;
  int math = 0;
  std::array<int, 3> reserved{};
};

#if __has_include(<cudnn.h>)
static_assert(sizeof(measured_algorithm) == sizeof(cudnnConvolutionFwdAlgoPerf_t));
#endif

/// cuDNN's older functions for convolutions, which the operator does not call; the same in all of cuDNN 9
/// (https://docs.nvidia.com/deeplearning/cudnn/). Thread: one at a time.
class cudnn {
 public:
  using status = int;
  using object = void*;

  static constexpr int f32 = 0;
  static constexpr int planes = 0;  ///< CUDNN_TENSOR_NCHW
  static constexpr int cross_correlation = 1;
  static constexpr int without_tensor_cores = 3;  ///< CUDNN_FMA_MATH
  static constexpr int deterministic = 1;

  cudnn() {
    resolve("cudnnCreate", create);
    resolve("cudnnDestroy", destroy);
    resolve("cudnnSetStream", set_stream);
    resolve("cudnnCreateTensorDescriptor", create_tensor);
    resolve("cudnnDestroyTensorDescriptor", destroy_tensor);
    resolve("cudnnSetTensor4dDescriptor", set_tensor);
    resolve("cudnnCreateFilterDescriptor", create_filter);
    resolve("cudnnDestroyFilterDescriptor", destroy_filter);
    resolve("cudnnSetFilter4dDescriptor", set_filter);
    resolve("cudnnCreateConvolutionDescriptor", create_convolution);
    resolve("cudnnDestroyConvolutionDescriptor", destroy_convolution);
    resolve("cudnnSetConvolution2dDescriptor", set_convolution);
    resolve("cudnnSetConvolutionGroupCount", set_groups);
    resolve("cudnnSetConvolutionMathType", set_math);
    resolve("cudnnFindConvolutionForwardAlgorithmEx", find);
    resolve("cudnnConvolutionForward", forward);
  }

  static void check(status code, const char* call) {
    if (code != 0) {
      throw std::runtime_error(fmt::format("{} failed: CUDNN_STATUS {}", call, code));
    }
  }

  status (*create)(object*) = nullptr;
  status (*destroy)(object) = nullptr;
  status (*set_stream)(object, cudaStream_t) = nullptr;
  status (*create_tensor)(object*) = nullptr;
  status (*destroy_tensor)(object) = nullptr;
  status (*set_tensor)(object, int format, int type, int n, int c, int h, int w) = nullptr;
  status (*create_filter)(object*) = nullptr;
  status (*destroy_filter)(object) = nullptr;
  status (*set_filter)(object, int type, int format, int k, int c, int h, int w) = nullptr;
  status (*create_convolution)(object*) = nullptr;
  status (*destroy_convolution)(object) = nullptr;
  status (*set_convolution)(object, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w,
                            int mode, int type) = nullptr;
  status (*set_groups)(object, int) = nullptr;
  status (*set_math)(object, int) = nullptr;
  status (*find)(object, object x_layout, const void* x, object w_layout, const void* w, object convolution,
                 object y_layout, void* y, int wanted, int* found, measured_algorithm*, void* workspace,
                 std::size_t bytes) = nullptr;
  status (*forward)(object, const void* alpha, object x_layout, const void* x, object w_layout, const void* w,
                    object convolution, int algorithm, void* workspace, std::size_t bytes, const void* beta,
                    object y_layout, void* y) = nullptr;

 private:
  // As the kernels load it; it stays loaded.
  static void* load_library() {
    const char* const chosen = std::getenv("PENSTOCK_CUDNN");
    const std::string path = chosen != nullptr && *chosen != '\0' ? chosen : "libcudnn.so.9";
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      throw std::runtime_error(fmt::format("could not load {}", path));
    }
    return library;
  }
  template <class Function>
  void resolve(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(::dlsym(library_, symbol));
    if (function == nullptr) {
      throw std::runtime_error(std::string("the library has no ") + symbol);
    }
  }

  void* library_ = load_library();
};

std::shared_ptr<void> device_bytes(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw std::runtime_error("the device's memory does not suffice");
  }
  return {memory, [](void* each) { cudaFree(each); }};
}

/// cudnnConvolutionForward by the fastest of all algorithms, as cuDNN's own search finds it.
class cudnn_operation final : public operation {
 public:
  explicit cudnn_operation(const operator_case& subject)
      : shape_(parse_convolve(subject.settings, subject.inputs.front()).shape) {
    shape_.frames = subject.frames;
    std::vector<float> weights(static_cast<std::size_t>(shape_.weight_elements()));
    subject.settings.npy_file("weights")->read(0, weights);
    weights_ = device_table(weights);
    cudnn::check(library_.create(&handle_), "cudnnCreate");
    describe();
    search();
  }
  cudnn_operation(const cudnn_operation&) = delete;
  cudnn_operation& operator=(const cudnn_operation&) = delete;
  ~cudnn_operation() override {
    library_.destroy_tensor(x_);
    library_.destroy_tensor(y_);
    library_.destroy_filter(w_);
    library_.destroy_convolution(convolution_);
    library_.destroy(handle_);
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return kernel_queue::of(stream).enqueue([&](cudaStream_t cuda_stream) {
      const float one = 1.0F;
      const float zero = 0.0F;
      cudnn::status status = library_.set_stream(handle_, cuda_stream);
      if (status == 0) {
        status = library_.forward(handle_, &one, x_, arguments.inputs[0], w_, weights_.get(), convolution_,
                                  best_.algorithm, workspace_.get(), best_.workspace, &zero, y_, arguments.output);
      }
      return status == 0 ? fault{} : fault{"CUDNN_STATUS"};
    });
  }

  [[nodiscard]] int algorithm() const noexcept { return best_.algorithm; }

 private:
  void describe() {
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    const convolution_shape::pair output = shape_.output_size();
    cudnn::check(library_.create_tensor(&x_), "cudnnCreateTensorDescriptor");
    cudnn::check(library_.create_tensor(&y_), "cudnnCreateTensorDescriptor");
    cudnn::check(library_.create_filter(&w_), "cudnnCreateFilterDescriptor");
    cudnn::check(library_.create_convolution(&convolution_), "cudnnCreateConvolutionDescriptor");
    cudnn::check(library_.set_tensor(x_, cudnn::planes, cudnn::f32, number(shape_.frames), number(shape_.channels),
                                     number(shape_.size[0]), number(shape_.size[1])),
                 "cudnnSetTensor4dDescriptor");
    cudnn::check(library_.set_tensor(y_, cudnn::planes, cudnn::f32, number(shape_.frames), number(shape_.filters),
                                     number(output[0]), number(output[1])),
                 "cudnnSetTensor4dDescriptor");
    cudnn::check(library_.set_filter(w_, cudnn::f32, cudnn::planes, number(shape_.filters),
                                     number(shape_.channels / shape_.groups), number(shape_.filter_size[0]),
                                     number(shape_.filter_size[1])),
                 "cudnnSetFilter4dDescriptor");
    cudnn::check(
        library_.set_convolution(convolution_, number(shape_.padding[0]), number(shape_.padding[1]),
                                 number(shape_.stride[0]), number(shape_.stride[1]), number(shape_.dilation[0]),
                                 number(shape_.dilation[1]), cudnn::cross_correlation, cudnn::f32),
        "cudnnSetConvolution2dDescriptor");
    cudnn::check(library_.set_groups(convolution_, number(shape_.groups)), "cudnnSetConvolutionGroupCount");
    cudnn::check(library_.set_math(convolution_, cudnn::without_tensor_cores), "cudnnSetConvolutionMathType");
  }

  void search() {
    constexpr std::size_t room = std::size_t{256} << 20U;
    const std::shared_ptr<void> x = device_bytes(sizeof(float) * elements(shape_.input_elements()));
    const std::shared_ptr<void> y = device_bytes(sizeof(float) * elements(shape_.output_elements()));
    workspace_ = device_bytes(room);
    std::array<measured_algorithm, 16> measured{};
    int found = 0;
    cudnn::check(library_.find(handle_, x_, x.get(), w_, weights_.get(), convolution_, y_, y.get(),
                               static_cast<int>(measured.size()), &found, measured.data(), workspace_.get(), room),
                 "cudnnFindConvolutionForwardAlgorithmEx");
    for (int at = 0; at < found; ++at) {
      const measured_algorithm& each = measured[static_cast<std::size_t>(at)];
      if (each.status == 0 && each.determinism == cudnn::deterministic && each.math == cudnn::without_tensor_cores) {
        best_ = each;
        return;
      }
    }
    throw std::runtime_error("cuDNN's search found no algorithm");
  }

  [[nodiscard]] std::size_t elements(std::int64_t of_frame) const noexcept {
    return static_cast<std::size_t>(shape_.frames * of_frame);
  }

  cudnn library_;
  convolution_shape shape_;
  std::shared_ptr<const float> weights_;
  std::shared_ptr<void> workspace_;
  measured_algorithm best_;
  cudnn::object handle_ = nullptr;
  cudnn::object x_ = nullptr;
  cudnn::object y_ = nullptr;
  cudnn::object w_ = nullptr;
  cudnn::object convolution_ = nullptr;
};

}  // namespace

std::vector<library_call> cudnn_calls(const operator_case& subject) {
  std::vector<library_call> calls;
  if (subject.op == "convolve" && !subject.settings.has("bias") && !subject.settings.has("activation")) {
    auto work = std::make_unique<cudnn_operation>(subject);
    const std::string call = fmt::format("cudnnConvolutionForward by algorithm {}", work->algorithm());
    calls.push_back({.key = "of_cudnn",
                     .call = call,
                     .work = std::move(work),
                     .output_bytes = subject.output_bytes(),
                     .difference = difference_of});
  }
  return calls;
}

}  // namespace penstock::bench
