// Penstock's own kernels, and the libraries that it calls, once more on the host: slow and simple.
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/captured_rows.hpp"
#include "kernels/cublas.hpp"
#include "kernels/cudnn.hpp"
#include "kernels/strided_copy.hpp"
#include "tests/fake_cuda/fake_kernel.hpp"
#include "tests/fake_cuda/fake_machine.hpp"

namespace penstock {
namespace {

using testing::host_kernel;

void copy(const captured_copy& what) {
  if (what.from == nullptr) {
    std::memset(what.to, 0, static_cast<std::size_t>(what.bytes));
  } else {
    std::memcpy(what.to, what.from, static_cast<std::size_t>(what.bytes));
  }
}

std::int32_t copies_of(const captured_rows& rows) {
  return rows.operands + (rows.state_bytes != 0 ? 1 : 0);
}

template <bool Listed, bool Out>
void move_rows(void* const* arguments) {
  const auto& rows = *static_cast<const captured_rows*>(arguments[0]);
  for (std::int32_t row = 0; row < (Out ? rows.frames : rows.rows); ++row) {
    const std::int32_t frame = row >= rows.frames ? -1
                               : Listed           ? static_cast<const captured_frame_list*>(arguments[1])->frame[row]
                                                  : rows.first + row;
    for (std::int32_t index = 0; index < copies_of(rows); ++index) {
      copy(Out ? scattered(rows, index, row, frame) : gathered(rows, index, row, frame));
    }
  }
}

void copy_elements(void* const* arguments) {
  const auto& what = *static_cast<const strided_copy*>(arguments[0]);
  std::array<std::int64_t, strided_copy::most_extents> at{};
  for (;;) {
    std::int64_t to = 0;
    std::int64_t from = 0;
    for (std::size_t axis = 0; axis < what.extents; ++axis) {
      to += at[axis] * what.axis[axis].to_stride;
      from += at[axis] * what.axis[axis].from_stride;
    }
    const auto element = static_cast<std::int64_t>(what.element);
    const void* const source = what.from == nullptr ? static_cast<const void*>(&what.value)
                                                    : static_cast<const void*>(what.from + from * element);
    std::memcpy(what.to + to * element, source, what.element);
    std::size_t axis = what.extents;
    while (axis-- > 0 && ++at[axis] == what.axis[axis].size) {
      at[axis] = 0;
    }
    if (axis > what.extents) {
      return;
    }
  }
}

struct product_call {
  product_settings settings;
  product_arguments arguments;
};

float at(const void* values, const product_matrix& matrix, std::int64_t pair, std::int64_t row, std::int64_t column) {
  const std::int64_t place = matrix.transposed ? column * matrix.leading + row : row * matrix.leading + column;
  return static_cast<const float*>(values)[pair * matrix.stride + place];
}

void multiply(void* const* arguments) {
  const auto& [settings, given] = *static_cast<const product_call*>(arguments[0]);
  for (std::int64_t pair = 0; pair < settings.batch; ++pair) {
    for (std::int64_t row = 0; row < settings.m; ++row) {
      for (std::int64_t column = 0; column < settings.n; ++column) {
        double sum = 0;
        for (std::int64_t inner = 0; inner < settings.k; ++inner) {
          sum += static_cast<double>(at(given.a, settings.a, pair, row, inner)) *
                 static_cast<double>(at(given.b, settings.b, pair, inner, column));
        }
        sum *= settings.alpha;
        sum += settings.beta == 0 ? 0 : settings.beta * static_cast<double>(at(given.c, settings.c, pair, row, column));
        sum += settings.has_bias ? static_cast<double>(static_cast<const float*>(given.bias)[column]) : 0;
        static_cast<float*>(given.out)[pair * settings.out.stride + row * settings.out.leading + column] =
            static_cast<float>(sum);
      }
    }
  }
}

struct convolution_call {
  convolution_shape shape;
  const float* x;
  const float* weights;
  const float* bias;
  float* y;
};

void convolve(void* const* arguments) {
  const auto& [shape, x, weights, bias, y] = *static_cast<const convolution_call*>(arguments[0]);
  const auto [height, width] = shape.output_size();
  const std::int64_t in_group = shape.channels / shape.groups;
  const std::int64_t out_group = shape.filters / shape.groups;
  std::int64_t to = 0;
  for (std::int64_t frame = 0; frame < shape.frames; ++frame) {
    for (std::int64_t filter = 0; filter < shape.filters; ++filter) {
      for (std::int64_t row = 0; row < height; ++row) {
        for (std::int64_t column = 0; column < width; ++column) {
          double sum = bias == nullptr ? 0 : static_cast<double>(bias[filter]);
          for (std::int64_t channel = 0; channel < in_group; ++channel) {
            for (std::int64_t i = 0; i < shape.filter_size[0]; ++i) {
              for (std::int64_t j = 0; j < shape.filter_size[1]; ++j) {
                const std::int64_t h = row * shape.stride[0] - shape.padding[0] + i * shape.dilation[0];
                const std::int64_t w = column * shape.stride[1] - shape.padding[1] + j * shape.dilation[1];
                if (h < 0 || w < 0 || h >= shape.size[0] || w >= shape.size[1]) {
                  continue;
                }
                const std::int64_t from = filter / out_group * in_group + channel;
                sum +=
                    static_cast<double>(x[((frame * shape.channels + from) * shape.size[0] + h) * shape.size[1] + w]) *
                    static_cast<double>(
                        weights[((filter * in_group + channel) * shape.filter_size[0] + i) * shape.filter_size[1] + j]);
              }
            }
          }
          y[to++] = static_cast<float>(sum);
        }
      }
    }
  }
}

constexpr host_kernel gather{{sizeof(captured_rows), 0}, move_rows<false, false>};
constexpr host_kernel scatter{{sizeof(captured_rows), 0}, move_rows<false, true>};
constexpr host_kernel gather_listed{{sizeof(captured_rows), sizeof(captured_frame_list)}, move_rows<true, false>};
constexpr host_kernel scatter_listed{{sizeof(captured_rows), sizeof(captured_frame_list)}, move_rows<true, true>};
constexpr host_kernel strided{{sizeof(strided_copy), 0}, copy_elements};
constexpr host_kernel product{{sizeof(product_call), 0}, multiply};
constexpr host_kernel convolution{{sizeof(convolution_call), 0}, convolve};

template <class Call>
fault launch(cudaStream_t stream, const host_kernel& kernel, Call call) noexcept {
  std::array<void*, 1> arguments{&call};
  const cudaError_t met = cudaLaunchKernel(&kernel, dim3(1), dim3(1), arguments.data(), 0, stream);
  return {met == cudaSuccess ? nullptr : cudaGetErrorName(met)};
}

}  // namespace

captured_kernels captured_row_kernels() noexcept {
  return {&gather, &scatter, &gather_listed, &scatter_listed};
}

fault copy_strided(cudaStream_t stream, strided_copy copy) noexcept {
  return launch(stream, strided, copy);
}

namespace testing {

const char fake_kernel_address = 0;

const host_kernel* find_host_kernel(const void* function) {
  for (const host_kernel* each :
       {&gather, &scatter, &gather_listed, &scatter_listed, &strided, &product, &convolution}) {
    if (each == function) {
      return each;
    }
  }
  return nullptr;
}

}  // namespace testing

// -- cuBLASLt and cuDNN -----------------------------------------------------------------------------------------------

class cublaslt_plan {
 public:
  product_settings settings;
};

cublaslt_library::~cublaslt_library() = default;

std::shared_ptr<const cublaslt_library> cublaslt_library::load() {
  return std::make_shared<const cublaslt_library>();
}

cublaslt_product::cublaslt_product(std::shared_ptr<const cublaslt_library> /*library*/,
                                   const product_settings& settings, buckets /*rows*/, const void* /*b*/)
    : plan_(std::make_unique<cublaslt_plan>(cublaslt_plan{settings})) {}
cublaslt_product::cublaslt_product(cublaslt_product&& other) noexcept = default;
cublaslt_product::~cublaslt_product() = default;

std::size_t cublaslt_product::workspace_bytes() const noexcept {
  return 64;
}

fault cublaslt_product::run(cudaStream_t stream, const product_arguments& arguments) const noexcept {
  if (arguments.workspace == nullptr) {
    return {"NO_WORKSPACE"};
  }
  return launch(stream, product, product_call{plan_->settings, arguments});
}

std::shared_ptr<const cudnn_library> cudnn_library::load() {
  return std::make_shared<const cudnn_library>();
}

cudnn_handle::cudnn_handle(std::shared_ptr<const cudnn_library> library) : library_(std::move(library)) {}
cudnn_handle::~cudnn_handle() = default;

class cudnn_convolution::implementation {
 public:
  convolution_shape shape;
};

cudnn_convolution::cudnn_convolution(std::shared_ptr<const cudnn_handle> /*handle*/, const convolution_shape& shape,
                                     const cudnn_convolution_settings& /*settings*/)
    : implementation_(std::make_unique<implementation>(implementation{shape})) {}
cudnn_convolution::cudnn_convolution(cudnn_convolution&& other) noexcept = default;
cudnn_convolution::~cudnn_convolution() = default;

std::size_t cudnn_convolution::workspace_bytes() const noexcept {
  return 0;
}

fault cudnn_convolution::run(cudaStream_t stream, void* /*workspace*/, const void* x, const void* weights,
                             const void* bias, void* y) noexcept {
  return launch(
      stream, convolution,
      convolution_call{implementation_->shape, static_cast<const float*>(x), static_cast<const float*>(weights),
                       static_cast<const float*>(bias), static_cast<float*>(y)});
}

}  // namespace penstock
