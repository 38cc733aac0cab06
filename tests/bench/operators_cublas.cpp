#include <algorithm>
#include <bit>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "kernels/correlate.hpp"
#include "kernels/fir.hpp"
#include "kernels/kernel_queue.hpp"
#include "kernels/window.hpp"
#include "tests/bench/operators_cuda.hpp"

#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#endif

namespace penstock::bench {
namespace {

using numbers = std::vector<float>;

std::string environment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// As the kernels load cuFFT (docs/decisions/0017-kernels.md).
void* load_library() {
  constexpr const char* names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"};
  std::vector<std::string> paths(std::begin(names), std::end(names));
  for (const std::string& toolkit : {environment("CUDA_PATH"), std::string("/usr/local/cuda")}) {
    for (const char* const folder : {"/lib64/", "/targets/x86_64-linux/lib/"}) {
      for (const char* const name : names) {
        if (!toolkit.empty()) {
          paths.push_back(toolkit + folder + name);
        }
      }
    }
  }
  if (const std::string chosen = environment("PENSTOCK_CUBLAS"); !chosen.empty()) {
    paths = {chosen};
  }
  std::string failure;
  for (const std::string& path : paths) {
    // Never unloaded: it registers kernels with the driver, and removing them at exit is not safe.
    if (void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); library != nullptr) {
      return library;
    }
    const char* const reason = ::dlerror();
    failure = failure.empty() && reason != nullptr ? reason : failure;
  }
  throw std::runtime_error("could not load it (" + failure + "); PENSTOCK_CUBLAS may name the file");
}

}  // namespace

/// The functions of cuBLAS that are called, with one handle; the same from cuBLAS 11 on
/// (https://docs.nvidia.com/cuda/cublas/). Matrices are stored by columns. Thread: one at a time.
class cublas {
 public:
  using context = void*;
  using status = int;

  static constexpr int plain = 0;  ///< CUBLAS_OP_N
  static constexpr int left = 0;   ///< CUBLAS_SIDE_LEFT

  cublas() {
    resolve("cublasCreate_v2", create_);
    resolve("cublasDestroy_v2", destroy_);
    resolve("cublasGetVersion_v2", get_version_);
    resolve("cublasSetStream_v2", set_stream_);
    resolve("cublasSgeam", sgeam);
    resolve("cublasSdgmm", sdgmm);
    resolve("cublasCdgmm", cdgmm);
    resolve("cublasSgemmStridedBatched", sgemm_batched);
    check(create_(&handle_), "cublasCreate");
  }
  cublas(const cublas&) = delete;
  cublas& operator=(const cublas&) = delete;
  ~cublas() { static_cast<void>(destroy_(handle_)); }

  [[nodiscard]] int version() const {
    int version = 0;
    check(get_version_(handle_, &version), "cublasGetVersion");
    return version;
  }
  /// Makes the stream of this kernel_queue the one of the calls that follow; nullptr: the default stream.
  fault use(void* stream) noexcept {
    if (stream == nullptr) {
      stream_ = nullptr;
      return fault_of(set_stream_(handle_, nullptr));
    }
    return kernel_queue::of(stream).enqueue([&](cudaStream_t cuda_stream) {
      if (stream == stream_) {
        return fault{};
      }
      const fault failed = fault_of(set_stream_(handle_, cuda_stream));
      stream_ = failed ? nullptr : stream;
      return failed;
    });
  }
  [[nodiscard]] context handle() const noexcept { return handle_; }
  [[nodiscard]] static fault fault_of(status code) noexcept { return code == 0 ? fault{} : fault{"CUBLAS_STATUS"}; }

  /// C = alpha · op(A) + beta · op(B)
  status (*sgeam)(context, int op_a, int op_b, int m, int n, const float* alpha, const float* a, int lda,
                  const float* beta, const float* b, int ldb, float* c, int ldc) = nullptr;
  /// C = diag(x) · A with `left`; real, and complex.
  status (*sdgmm)(context, int side, int m, int n, const float* a, int lda, const float* x, int incx, float* c,
                  int ldc) = nullptr;
  status (*cdgmm)(context, int side, int m, int n, const void* a, int lda, const void* x, int incx, void* c,
                  int ldc) = nullptr;
  /// C = alpha · op(A) · op(B) + beta · C for each of a batch; C is m × n.
  status (*sgemm_batched)(context, int op_a, int op_b, int m, int n, int k, const float* alpha, const float* a, int lda,
                          long long stride_a, const float* b, int ldb, long long stride_b, const float* beta, float* c,
                          int ldc, long long stride_c, int batch) = nullptr;

 private:
  template <class Function>
  void resolve(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(::dlsym(library_, symbol));
    if (function == nullptr) {
      throw std::runtime_error(std::string("the library has no ") + symbol);
    }
  }
  static void check(status code, const char* call) {
    if (code != 0) {
      throw std::runtime_error(fmt::format("{} failed: CUBLAS_STATUS {}", call, code));
    }
  }

  void* library_ = load_library();
  context handle_ = nullptr;
  void* stream_ = nullptr;
  status (*create_)(context*) = nullptr;
  status (*destroy_)(context) = nullptr;
  status (*get_version_)(context, int*) = nullptr;
  status (*set_stream_)(context, void*) = nullptr;
};

namespace {

#if __has_include(<cublas_v2.h>)
static_assert(cublas::plain == CUBLAS_OP_N);
static_assert(cublas::left == CUBLAS_SIDE_LEFT);
static_assert(sizeof(cublas::context) == sizeof(cublasHandle_t));
static_assert(sizeof(cublas::status) == sizeof(cublasStatus_t));
#endif

constexpr float zero = 0;
constexpr float one = 1;

using cublas_function = std::function<cublas::status(cublas&, const operation_arguments&)>;

class cublas_operation final : public operation {
 public:
  cublas_operation(std::shared_ptr<cublas> library, cublas_function call)
      : library_(std::move(library)), call_(std::move(call)) {}
  ~cublas_operation() override { static_cast<void>(library_->use(nullptr)); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if (const fault failed = library_->use(stream)) {
      return failed;
    }
    return cublas::fault_of(call_(*library_, arguments));
  }

 private:
  std::shared_ptr<cublas> library_;
  cublas_function call_;
};

const float* input_of(const operation_arguments& arguments, std::size_t index = 0) {
  return static_cast<const float*>(arguments.inputs[index]);
}

float* output_of(const operation_arguments& arguments) {
  return static_cast<float*>(arguments.output);
}

struct candidate {
  std::string call;
  cublas_function function;
  std::size_t output_bytes;
  std::function<double(const numbers&, const numbers&)> difference = difference_of;
};

/// Floats of a frame, and frames.
struct batch_shape {
  int length;
  int frames;

  [[nodiscard]] int count() const noexcept { return length * frames; }
};

batch_shape shape_of(const operator_case& subject) {
  const tensor_spec& input = subject.inputs.front();
  const auto length = static_cast<int>(input.elements()) * (is_complex(input.type) ? 2 : 1);
  return {length, static_cast<int>(subject.frames)};
}

/// alpha · A + beta · B over the whole batch.
candidate sum_of(const operator_case& subject, std::string call, float alpha, float beta) {
  constexpr int column = 1024;
  const int columns = shape_of(subject).count() / column;
  return {std::move(call),
          [=](cublas& library, const operation_arguments& arguments) {
            const float* const a = input_of(arguments);
            const float* const b = input_of(arguments, arguments.inputs.size() - 1);
            return library.sgeam(library.handle(), cublas::plain, cublas::plain, column, columns, &alpha, a, column,
                                 &beta, b, column, output_of(arguments), column);
          },
          subject.output_bytes()};
}

candidate product_of(const operator_case& subject) {
  const int count = shape_of(subject).count() / 2;
  return {"cublasCdgmm of one column",
          [=](cublas& library, const operation_arguments& arguments) {
            return library.cdgmm(library.handle(), cublas::left, count, 1, arguments.inputs[1], count,
                                 arguments.inputs[0], 1, arguments.output, count);
          },
          subject.output_bytes()};
}

candidate window_of(const operator_case& subject) {
  const window_settings settings = parse_window(subject.settings, subject.inputs.front());
  numbers weights;
  for (const float weight : settings.coefficients) {
    weights.insert(weights.end(), is_complex(subject.inputs.front().type) ? 2 : 1, weight);
  }
  const batch_shape shape = shape_of(subject);
  return {"cublasSdgmm",
          [=, table = device_table(weights)](cublas& library, const operation_arguments& arguments) {
            return library.sdgmm(library.handle(), cublas::left, shape.length, shape.frames, input_of(arguments),
                                 shape.length, table.get(), 1, output_of(arguments), shape.length);
          },
          subject.output_bytes()};
}

/// A filter as products of matrices: a row of samples is cut into columns of `size`; each column of results is
/// `own` · its samples + `before` · the samples of the previous column.
struct toeplitz {
  int size;
  numbers own;
  numbers before;
};

/// The smallest power of two, at least 64, that holds the taps.
int toeplitz_size(std::size_t taps) {
  return static_cast<int>(std::max<std::size_t>(64, std::bit_ceil(taps)));
}

/// Of y[m] = Σ taps[k] · x[m - k].
toeplitz toeplitz_of(const numbers& taps) {
  const int size = toeplitz_size(taps.size());
  const auto elements = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  toeplitz matrices{size, numbers(elements), numbers(elements)};
  const auto tap_count = static_cast<int>(taps.size());
  for (int column = 0; column < size; ++column) {
    for (int row = 0; row < size; ++row) {
      const auto at = static_cast<std::size_t>(column * size + row);
      const int tap = row - column;
      if (tap >= 0 && tap < tap_count) {
        matrices.own[at] = taps[static_cast<std::size_t>(tap)];
      }
      if (tap + size < tap_count) {
        matrices.before[at] = taps[static_cast<std::size_t>(tap + size)];
      }
    }
  }
  return matrices;
}

/// A filter of every row from rest; the first `skipped` results of a row are not the operator's.
candidate filter_of(const operator_case& subject, const numbers& taps, std::size_t skipped) {
  const batch_shape shape = shape_of(subject);
  const toeplitz matrices = toeplitz_of(taps);
  const int size = matrices.size;
  const int columns = shape.length / size;
  const auto length = static_cast<std::size_t>(shape.length);
  return {fmt::format("cublasSgemmStridedBatched twice, the taps as matrices of {} × {}", size, size),
          [=, own = device_table(matrices.own), before = device_table(matrices.before)](
              cublas& library, const operation_arguments& arguments) {
            const cublas::status status = library.sgemm_batched(
                library.handle(), cublas::plain, cublas::plain, size, columns, size, &one, own.get(), size, 0,
                input_of(arguments), size, shape.length, &zero, output_of(arguments), size, shape.length, shape.frames);
            if (status != 0 || columns < 2) {
              return status;
            }
            return library.sgemm_batched(library.handle(), cublas::plain, cublas::plain, size, columns - 1, size, &one,
                                         before.get(), size, 0, input_of(arguments), size, shape.length, &one,
                                         output_of(arguments) + size, size, shape.length, shape.frames);
          },
          subject.input_bytes(),
          [=](const numbers& values, const numbers& operators) {
            numbers results;
            for (std::size_t row = 0; row < values.size(); row += length) {
              const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row);
              results.insert(results.end(), begin + static_cast<std::ptrdiff_t>(skipped),
                             begin + static_cast<std::ptrdiff_t>(length));
            }
            return difference_of(results, operators);
          }};
}

bool can_filter(const operator_case& subject, std::size_t taps) {
  return shape_of(subject).length % toeplitz_size(taps) == 0;
}

std::vector<candidate> filter_candidates(const operator_case& subject) {
  if (subject.op == "fir") {
    const fir_settings settings = parse_fir(subject.settings, subject.inputs.front());
    const bool plain =
        !subject.one_session && !subject.settings.has("taps_imag") && subject.settings.integer("decimation", 1) == 1;
    if (!plain || !can_filter(subject, settings.taps.size())) {
      return {};
    }
    return {filter_of(subject, numbers(settings.taps.begin(), settings.taps.end()), 0)};
  }
  // Without samples beyond the ends of a row: a filter by the reversed template, delayed by its length.
  const correlate_settings settings = parse_correlate(subject.settings, subject.inputs);
  const std::size_t taps = settings.coefficients.size();
  if (subject.settings.text("mode", "full") != "valid" || settings.complex_template || taps == 0 ||
      !can_filter(subject, taps)) {
    return {};
  }
  return {filter_of(subject, numbers(settings.coefficients.rbegin(), settings.coefficients.rend()), taps - 1)};
}

std::vector<candidate> candidates_for(const operator_case& subject) {
  const tensor_spec& input = subject.inputs.front();
  if (!is_floating(input.type) || input.shape.size() != 1 || input.shape.front() % 1024 != 0) {
    return {};
  }
  if (subject.op == "window") {
    return {window_of(subject)};
  }
  if (is_complex(input.type)) {
    const bool plain =
        subject.op == "multiply" && subject.inputs.size() == 2 && !subject.settings.flag("conjugate", false);
    return plain ? std::vector<candidate>{product_of(subject)} : std::vector<candidate>{};
  }
  if (subject.op == "add" && subject.inputs.size() == 2) {
    return {sum_of(subject, "cublasSgeam", 1, 1)};
  }
  if (subject.op == "affine" && subject.settings.number("b", 0) == 0) {
    return {
        sum_of(subject, "cublasSgeam without a second matrix", static_cast<float>(subject.settings.number("a", 1)), 0)};
  }
  return subject.op == "fir" || subject.op == "correlate" ? filter_candidates(subject) : std::vector<candidate>{};
}

}  // namespace

std::shared_ptr<cublas> load_cublas() {
  return std::make_shared<cublas>();
}

int version_of(const cublas& library) {
  return library.version();
}

std::vector<library_call> cublas_calls(const std::shared_ptr<cublas>& library, const operator_case& subject) {
  std::vector<library_call> calls;
  for (candidate& each : candidates_for(subject)) {
    calls.push_back({.key = "of_cublas",
                     .call = std::move(each.call),
                     .work = std::make_unique<cublas_operation>(library, std::move(each.function)),
                     .output_bytes = each.output_bytes,
                     .difference = std::move(each.difference)});
  }
  return calls;
}

bool has_cublas_calls(const operator_case& subject) {
  return !candidates_for(subject).empty();
}

}  // namespace penstock::bench
