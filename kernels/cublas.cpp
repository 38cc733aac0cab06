#include "kernels/cublas.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

#include "kernels/half.hpp"
#include "kernels/launch.cuh"
#include "kernels/runtime_library.hpp"

namespace penstock {
namespace {

// The library's constants.
constexpr int compute_f32 = 68;
constexpr int compute_tf32 = 77;
constexpr int compute_f64 = 70;
constexpr int layout_rows = 2;
constexpr int layout_columns = 3;
constexpr int layout_batch_count = 5;
constexpr int layout_batch_stride = 6;
constexpr int description_op_a = 3;
constexpr int description_op_b = 4;
constexpr int description_epilogue = 7;
constexpr int description_bias = 8;
constexpr int preference_workspace = 1;
constexpr int preference_reductions = 3;
constexpr std::array<int, 4> preference_alignments{5, 6, 7, 8};  // of a, b, c and d
constexpr int algorithm_splits = 2;
constexpr int algorithm_reduction = 3;
constexpr cublaslt_library::result not_supported = 15;
constexpr int op_plain = 0;
constexpr int op_transposed = 1;
constexpr int epilogue_none = 1;
constexpr int epilogue_relu = 2;
constexpr int epilogue_bias = 4;
constexpr int epilogue_gelu = 32;

#if __has_include(<cublasLt.h>)
static_assert(compute_f32 == CUBLAS_COMPUTE_32F);
static_assert(compute_tf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(compute_f64 == CUBLAS_COMPUTE_64F);
static_assert(layout_rows == CUBLASLT_MATRIX_LAYOUT_ROWS);
static_assert(layout_columns == CUBLASLT_MATRIX_LAYOUT_COLS);
static_assert(layout_batch_count == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(layout_batch_stride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(description_op_a == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(description_op_b == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(description_epilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(description_bias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(preference_workspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(preference_reductions == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(preference_alignments.front() == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(preference_alignments.back() == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(algorithm_splits == CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
static_assert(algorithm_reduction == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
static_assert(not_supported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(op_plain == CUBLAS_OP_N);
static_assert(op_transposed == CUBLAS_OP_T);
static_assert(epilogue_none == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(epilogue_relu == CUBLASLT_EPILOGUE_RELU);
static_assert(epilogue_bias == CUBLASLT_EPILOGUE_BIAS);
static_assert(epilogue_gelu == CUBLASLT_EPILOGUE_GELU);
static_assert(sizeof(cublaslt_library::algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(cublaslt_library::candidate) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cublaslt_library::candidate, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(sizeof(cublaslt_library::result) == sizeof(cublasStatus_t));
#endif

constexpr const char* installation_hint =
    "install the CUDA toolkit's cuBLAS (package libcublas-13-0 or libcublas-12-x of the same major version as the "
    "driver's CUDA) or set PENSTOCK_CUBLASLT to the path of libcublasLt.so.13 or libcublasLt.so.12";
constexpr const char* library_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11",
                                         "libcublasLt.so"};

void check(const cublaslt_library& library, cublaslt_library::result result, const std::string& action) {
  if (const fault failed = cublas_fault(result)) {
    throw std::runtime_error("cuBLASLt " + std::to_string(library.get_version()) + " could not " + action + ": " +
                             failed.name);
  }
}

void check(fault failed, const char* action) {
  if (failed) {
    throw std::runtime_error(std::string("could not ") + action + ": " + failed.name);
  }
}

int data_type(element_type type) {
  switch (type) {
    case element_type::f32:
      return CUDA_R_32F;
    case element_type::f64:
      return CUDA_R_64F;
    case element_type::f16:
      return CUDA_R_16F;
    case element_type::bf16:
      return CUDA_R_16BF;
    default:
      throw std::invalid_argument("no product has elements of type " + std::string(name_of(type)));
  }
}

/// Finite numbers between -1 and 1.
std::vector<std::byte> random_numbers(element_type type, std::size_t count) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> between(-1.0F, 1.0F);
  std::vector<std::byte> bytes(count * size_of(type));
  const auto fill = [&]<class Number>(Number (*convert)(float)) {
    for (std::size_t at = 0; at < count; ++at) {
      const Number value = convert(between(random));
      std::memcpy(bytes.data() + at * sizeof value, &value, sizeof value);
    }
  };
  switch (type) {
    case element_type::f64:
      fill(+[](float value) { return static_cast<double>(value); });
      break;
    case element_type::f16:
      fill(+[](float value) { return __float2half_rn(value); });
      break;
    case element_type::bf16:
      fill(+[](float value) { return __float2bfloat16_rn(value); });
      break;
    default:
      fill(+[](float value) { return value; });
  }
  return bytes;
}

using device_bytes = device_array<std::byte>;

/// Fills device memory with the bytes of `pattern`, again and again.
void fill(device_bytes& memory, std::span<const std::byte> pattern, std::size_t bytes) {
  std::size_t filled = std::min(pattern.size(), bytes);
  require_cuda(cudaMemcpy(memory.data(), pattern.data(), filled, cudaMemcpyHostToDevice), "fill a matrix");
  while (filled < bytes) {
    const std::size_t more = std::min(filled, bytes - filled);
    require_cuda(cudaMemcpy(memory.data() + filled, memory.data(), more, cudaMemcpyDeviceToDevice), "fill a matrix");
    filled += more;
  }
  require_cuda(cudaStreamSynchronize(nullptr), "fill a matrix");
}

device_bytes repeated(std::span<const std::byte> pattern, std::size_t bytes) {
  device_bytes memory(std::max<std::size_t>(bytes, 256));
  fill(memory, pattern, bytes);
  return memory;
}

class measuring_stream {
 public:
  measuring_stream() {
    require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream");
    require_cuda(cudaEventCreate(&begin_), "create an event");
    require_cuda(cudaEventCreate(&end_), "create an event");
  }
  measuring_stream(const measuring_stream&) = delete;
  measuring_stream& operator=(const measuring_stream&) = delete;
  ~measuring_stream() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }
  void wait() const { require_cuda(cudaStreamSynchronize(stream_), "run a product"); }
  /// Milliseconds of `calls` calls, one behind the other.
  template <class Call>
  float measure(int calls, const Call& call) const {
    require_cuda(cudaEventRecord(begin_, stream_), "record an event");
    for (int each = 0; each < calls; ++each) {
      check(call(), "run a product");
    }
    require_cuda(cudaEventRecord(end_, stream_), "record an event");
    require_cuda(cudaEventSynchronize(end_), "run a product");
    float milliseconds = 0;
    require_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "measure a product");
    return milliseconds;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

cublaslt_library::~cublaslt_library() {
  if (context != nullptr) {
    destroy(context);
  }
}

std::shared_ptr<const cublaslt_library> cublaslt_library::load() {
  const runtime_library library({.need = "a matrix product on the GPU needs cuBLASLt",
                                 .kind = "a cuBLASLt",
                                 .variable = "PENSTOCK_CUBLASLT",
                                 .names = library_names,
                                 .hint = installation_hint,
                                 .with_toolkit = true});
  auto found = std::make_shared<cublaslt_library>();
  library.find("cublasLtCreate", found->create);
  library.find("cublasLtDestroy", found->destroy);
  library.find("cublasLtGetVersion", found->get_version);
  library.find("cublasLtMatrixLayoutCreate", found->create_layout);
  library.find("cublasLtMatrixLayoutSetAttribute", found->set_layout);
  library.find("cublasLtMatrixLayoutDestroy", found->destroy_layout);
  library.find("cublasLtMatmulDescCreate", found->create_description);
  library.find("cublasLtMatmulDescSetAttribute", found->set_description);
  library.find("cublasLtMatmulDescDestroy", found->destroy_description);
  library.find("cublasLtMatmulPreferenceCreate", found->create_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", found->set_preference);
  library.find("cublasLtMatmulPreferenceDestroy", found->destroy_preference);
  library.find("cublasLtMatmulAlgoGetHeuristic", found->find_algorithms);
  library.find("cublasLtMatmulAlgoCheck", found->check_algorithm);
  library.find("cublasLtMatmulAlgoConfigSetAttribute", found->set_algorithm);
  library.find("cublasLtMatmul", found->multiply);
  check(*found, found->create(&found->context), "be initialised");
  return found;
}

/// The library's descriptions of a product, and the algorithms that it uses. cuBLASLt's matrices are stored by columns,
/// so it computes the transpose of out from the transposes of b, its A, and of a, its B.
class cublaslt_plan {
 public:
  cublaslt_plan(std::shared_ptr<const cublaslt_library> library, const product_settings& settings)
      : library_(std::move(library)), settings_(settings) {
    try {
      describe();
    } catch (...) {
      release();
      throw;
    }
  }
  cublaslt_plan(const cublaslt_plan&) = delete;
  cublaslt_plan& operator=(const cublaslt_plan&) = delete;
  ~cublaslt_plan() { release(); }

  void choose(bool powers_of_two, const void* b);

  [[nodiscard]] std::size_t workspace_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const bucket& each : buckets_) {
      bytes = std::max(bytes, each.workspace_bytes);
    }
    return bytes;
  }

  fault run(cudaStream_t stream, const product_arguments& arguments) noexcept {
    const std::int64_t rows = arguments.rows == 0 ? settings_.m : arguments.rows;
    const auto chosen =
        std::find_if(buckets_.begin(), buckets_.end(), [rows](const bucket& each) { return each.rows >= rows; });
    if (rows < 0 || chosen == buckets_.end()) {
      return {"CUBLAS_STATUS_INVALID_VALUE"};
    }
    return run(stream, arguments, rows, chosen->chosen, chosen->workspace_bytes);
  }

 private:
  struct bucket {
    std::int64_t rows = 0;  ///< at most
    cublaslt_library::algorithm chosen;
    std::size_t workspace_bytes = 0;
  };
  /// Operands to try algorithms with.
  struct operands {
    device_bytes a;
    std::optional<device_bytes> own_b;
    device_bytes c;
    device_bytes bias;
    device_bytes out;
    device_bytes workspace;
    product_arguments arguments;
  };

  void describe();
  void release() noexcept;
  [[nodiscard]] cublaslt_library::layout describe(const product_matrix& matrix, std::int64_t rows,
                                                  std::int64_t columns) const;
  fault set_rows(std::int64_t rows) noexcept;
  fault set_bias(const void* bias) noexcept;
  fault run(cudaStream_t stream, const product_arguments& arguments, std::int64_t rows,
            const cublaslt_library::algorithm& chosen, std::size_t workspace_bytes) noexcept;
  [[nodiscard]] std::size_t bytes_of(const product_matrix& matrix, std::int64_t rows, std::int64_t columns) const;
  [[nodiscard]] operands make_operands(const void* b) const;
  /// The algorithms that cuBLASLt proposes for so many rows, best first; may be empty.
  [[nodiscard]] std::vector<cublaslt_library::candidate> proposals(std::int64_t rows);
  /// Algorithms that compute `rows` and also `fewest` rows. Throws no_algorithm if there is none.
  [[nodiscard]] std::vector<cublaslt_library::candidate> candidates(std::int64_t rows, std::int64_t fewest);
  /// Sets an algorithm to add up each sum in one piece; false if it can't.
  [[nodiscard]] bool keep_whole(cublaslt_library::candidate& tried) const;
  /// Whether an algorithm computes so many rows too; counts its workspace for them.
  [[nodiscard]] bool takes_rows(cublaslt_library::candidate& tried, std::int64_t rows);
  [[nodiscard]] bucket fastest(std::int64_t rows, std::int64_t fewest, operands& memory,
                               const measuring_stream& stream);
  /// Whether a NaN in a row comes out of it. Overwrites the rows.
  [[nodiscard]] bool keeps_nan(const bucket& tried, operands& memory, const measuring_stream& stream);
  [[nodiscard]] bucket first_repeatable(operands& memory, const measuring_stream& stream);
  [[nodiscard]] bool repeats(cublaslt_library::candidate& tried, std::span<const std::int64_t> counts, operands& memory,
                             const measuring_stream& stream);

  std::shared_ptr<const cublaslt_library> library_;
  const product_settings settings_;
  cublaslt_library::description description_ = nullptr;
  cublaslt_library::layout a_ = nullptr;
  cublaslt_library::layout b_ = nullptr;
  cublaslt_library::layout c_ = nullptr;
  cublaslt_library::layout out_ = nullptr;
  float alpha_ = 0;
  float beta_ = 0;
  const void* scale_alpha_ = nullptr;  ///< in the type that the library takes
  const void* scale_beta_ = nullptr;
  std::int64_t rows_ = 0;  ///< that the descriptions have now
  const void* bias_ = nullptr;
  std::vector<bucket> buckets_;
};

cublaslt_library::layout cublaslt_plan::describe(const product_matrix& matrix, std::int64_t rows,
                                                 std::int64_t columns) const {
  const bool turned = matrix.transposed;
  cublaslt_library::layout made = nullptr;
  // By columns: the rows of the library's matrix are our columns.
  check(*library_,
        library_->create_layout(&made, data_type(matrix.type), static_cast<std::uint64_t>(turned ? rows : columns),
                                static_cast<std::uint64_t>(turned ? columns : rows), matrix.leading),
        "describe a matrix of " + std::to_string(rows) + " × " + std::to_string(columns));
  if (settings_.batch != 1) {
    const auto count = static_cast<std::int32_t>(settings_.batch);
    check(*library_, library_->set_layout(made, layout_batch_count, &count, sizeof count), "describe a batch");
    check(*library_, library_->set_layout(made, layout_batch_stride, &matrix.stride, sizeof matrix.stride),
          "describe a batch");
  }
  return made;
}

void cublaslt_plan::describe() {
  if (settings_.activation == product_activation::gelu && size_of(settings_.out.type) == 2 && settings_.n % 8 != 0) {
    // Its algorithms for such rows compute GELU in the output's type: off by up to 2 % in bf16.
    throw no_algorithm("cuBLASLt has no exact GELU for 16-bit rows of " + std::to_string(settings_.n) + " columns");
  }
  const bool doubles = settings_.a.type == element_type::f64;
  const int compute = doubles ? compute_f64 : settings_.tf32 ? compute_tf32 : compute_f32;
  check(*library_, library_->create_description(&description_, compute, doubles ? CUDA_R_64F : CUDA_R_32F),
        "describe a product");
  const int op_a = settings_.b.transposed ? op_transposed : op_plain;
  const int op_b = settings_.a.transposed ? op_transposed : op_plain;
  check(*library_, library_->set_description(description_, description_op_a, &op_a, sizeof op_a), "transpose");
  check(*library_, library_->set_description(description_, description_op_b, &op_b, sizeof op_b), "transpose");
  int epilogue = settings_.activation == product_activation::relu   ? epilogue_relu
                 : settings_.activation == product_activation::gelu ? epilogue_gelu
                                                                    : 0;
  epilogue |= settings_.has_bias ? epilogue_bias : 0;
  epilogue = epilogue == 0 ? epilogue_none : epilogue;
  check(*library_, library_->set_description(description_, description_epilogue, &epilogue, sizeof epilogue),
        "add a bias or an activation");
  a_ = describe(settings_.a, settings_.m, settings_.k);
  b_ = describe(settings_.b, settings_.k, settings_.n);
  product_matrix out = settings_.out;
  out.transposed = false;
  out_ = describe(out, settings_.m, settings_.n);
  product_matrix c = settings_.beta == 0 ? out : settings_.c;
  c.transposed = false;
  c_ = describe(c, settings_.m, settings_.n);
  rows_ = settings_.m;
  alpha_ = static_cast<float>(settings_.alpha);
  beta_ = static_cast<float>(settings_.beta);
  scale_alpha_ = doubles ? static_cast<const void*>(&settings_.alpha) : &alpha_;
  scale_beta_ = doubles ? static_cast<const void*>(&settings_.beta) : &beta_;
}

void cublaslt_plan::release() noexcept {
  for (cublaslt_library::layout* each : {&a_, &b_, &c_, &out_}) {
    if (*each != nullptr) {
      library_->destroy_layout(std::exchange(*each, nullptr));
    }
  }
  if (description_ != nullptr) {
    library_->destroy_description(std::exchange(description_, nullptr));
  }
}

fault cublaslt_plan::set_rows(std::int64_t rows) noexcept {
  if (rows == rows_) {
    return {};
  }
  rows_ = 0;
  const auto value = static_cast<std::uint64_t>(rows);
  const int of_a = settings_.a.transposed ? layout_rows : layout_columns;
  for (const auto& [matrix, attribute] : {std::pair{a_, of_a}, {c_, layout_columns}, {out_, layout_columns}}) {
    if (const fault failed = cublas_fault(library_->set_layout(matrix, attribute, &value, sizeof value))) {
      return failed;
    }
  }
  rows_ = rows;
  return {};
}

fault cublaslt_plan::set_bias(const void* bias) noexcept {
  if (!settings_.has_bias || bias == bias_) {
    return {};
  }
  bias_ = bias;
  return cublas_fault(library_->set_description(description_, description_bias, &bias, sizeof bias));
}

fault cublaslt_plan::run(cudaStream_t stream, const product_arguments& arguments, std::int64_t rows,
                         const cublaslt_library::algorithm& chosen, std::size_t workspace_bytes) noexcept {
  if (const fault failed = set_rows(rows)) {
    return failed;
  }
  if (const fault failed = set_bias(arguments.bias)) {
    return failed;
  }
  const void* const c = settings_.beta == 0 ? arguments.out : arguments.c;
  return cublas_fault(library_->multiply(library_->context, description_, scale_alpha_, arguments.b, b_, arguments.a,
                                         a_, scale_beta_, c, c_, arguments.out, out_, &chosen, arguments.workspace,
                                         workspace_bytes, stream));
}

std::size_t cublaslt_plan::bytes_of(const product_matrix& matrix, std::int64_t rows, std::int64_t columns) const {
  const std::int64_t lines = matrix.transposed ? columns : rows;
  const std::int64_t last = (settings_.batch - 1) * matrix.stride;
  return static_cast<std::size_t>(last + lines * matrix.leading) * size_of(matrix.type);
}

cublaslt_plan::operands cublaslt_plan::make_operands(const void* b) const {
  constexpr std::size_t drawn = std::size_t{1} << 16U;
  const element_type result = settings_.out.type;
  const std::vector<std::byte> numbers = random_numbers(settings_.b.type, drawn);
  const std::vector<std::byte> results = random_numbers(result, drawn);
  const std::size_t c_bytes = settings_.beta == 0 ? 0 : bytes_of(settings_.c, settings_.m, settings_.n);
  operands made{.a = repeated(random_numbers(settings_.a.type, drawn), bytes_of(settings_.a, settings_.m, settings_.k)),
                .own_b = {},
                .c = repeated(results, c_bytes),
                .bias = repeated(results, static_cast<std::size_t>(settings_.n) * size_of(result)),
                .out = device_bytes(std::max<std::size_t>(bytes_of(settings_.out, settings_.m, settings_.n), 256)),
                .workspace = device_bytes(std::max<std::size_t>(settings_.max_workspace, 256)),
                .arguments = {}};
  if (b == nullptr) {
    made.own_b.emplace(repeated(numbers, bytes_of(settings_.b, settings_.k, settings_.n)));
    b = made.own_b->data();
  }
  made.arguments = {.a = made.a.data(),
                    .b = b,
                    .c = made.c.data(),
                    .bias = made.bias.data(),
                    .out = made.out.data(),
                    .workspace = made.workspace.data(),
                    .rows = 0};
  return made;
}

std::vector<cublaslt_library::candidate> cublaslt_plan::proposals(std::int64_t rows) {
  constexpr int wanted = 32;
  std::vector<cublaslt_library::candidate> found(static_cast<std::size_t>(wanted));
  int count = 0;
  check(set_rows(rows), "describe a product");
  cublaslt_library::preference preference = nullptr;
  check(*library_, library_->create_preference(&preference), "describe a preference");
  const std::uint64_t workspace = settings_.max_workspace;
  constexpr std::uint32_t alignment = 16;  // of product_arguments
  cublaslt_library::result met =
      library_->set_preference(preference, preference_workspace, &workspace, sizeof workspace);
  for (const int attribute : preference_alignments) {
    met = met == 0 ? library_->set_preference(preference, attribute, &alignment, sizeof alignment) : met;
  }
  const auto find_with = [&](std::uint32_t reductions) {
    met = library_->set_preference(preference, preference_reductions, &reductions, sizeof reductions);
    met = met == 0 ? library_->find_algorithms(library_->context, description_, b_, a_, c_, out_, preference, wanted,
                                               found.data(), &count)
                   : met;
  };
  constexpr std::uint32_t any_reduction = 7;
  if (met == 0) {
    find_with(settings_.repeatable ? 0 : any_reduction);
  }
  if (settings_.repeatable && (met == not_supported || (met == 0 && count == 0))) {
    find_with(any_reduction);  // keep_whole undoes their splits
  }
  library_->destroy_preference(preference);
  if (met == not_supported) {
    return {};
  }
  check(*library_, met, "find an algorithm");
  found.resize(static_cast<std::size_t>(count));
  return found;
}

std::vector<cublaslt_library::candidate> cublaslt_plan::candidates(std::int64_t rows, std::int64_t fewest) {
  // For few rows cuBLASLt may propose only algorithms that split the sum; those for many rows compute few as well.
  constexpr std::int64_t many_rows = 4096;
  for (const std::int64_t asked : {rows, std::max(rows, many_rows)}) {
    std::vector<cublaslt_library::candidate> found = proposals(asked);
    std::erase_if(found, [&](cublaslt_library::candidate& each) {
      return each.state != 0 || (settings_.repeatable && !keep_whole(each)) || !takes_rows(each, rows) ||
             !takes_rows(each, fewest);
    });
    if (!found.empty()) {
      return found;
    }
  }
  const auto shape = [](std::int64_t height, std::int64_t width) {
    return "[" + std::to_string(height) + ", " + std::to_string(width) + "]";
  };
  throw no_algorithm("cuBLASLt " + std::to_string(library_->get_version()) + " has no algorithm for " +
                     shape(rows, settings_.k) + " x " + shape(settings_.k, settings_.n) + " of " +
                     std::string(name_of(settings_.a.type)));
}

bool cublaslt_plan::keep_whole(cublaslt_library::candidate& tried) const {
  constexpr std::int32_t splits = 1;
  constexpr std::uint32_t reduction = 0;
  return library_->set_algorithm(&tried.chosen, algorithm_splits, &splits, sizeof splits) == 0 &&
         library_->set_algorithm(&tried.chosen, algorithm_reduction, &reduction, sizeof reduction) == 0;
}

bool cublaslt_plan::takes_rows(cublaslt_library::candidate& tried, std::int64_t rows) {
  check(set_rows(rows), "describe a product");
  cublaslt_library::candidate checked;
  if (library_->check_algorithm(library_->context, description_, b_, a_, c_, out_, &tried.chosen, &checked) != 0) {
    return false;
  }
  tried.workspace_bytes = std::max(tried.workspace_bytes, checked.workspace_bytes);
  return tried.workspace_bytes <= settings_.max_workspace;
}

cublaslt_plan::bucket cublaslt_plan::fastest(std::int64_t rows, std::int64_t fewest, operands& memory,
                                             const measuring_stream& stream) {
  struct entrant {
    cublaslt_library::candidate tried;
    int calls = 1;
    float milliseconds = std::numeric_limits<float>::max();
  };
  constexpr float round_milliseconds = 0.3F;
  std::vector<entrant> entrants;
  const auto call = [&](const cublaslt_library::candidate& tried) {
    return run(stream.get(), memory.arguments, rows, tried.chosen, settings_.max_workspace);
  };
  fault failed{};
  for (const cublaslt_library::candidate& each : candidates(rows, fewest)) {
    // The first call loads its kernels.
    if (const fault met = call(each)) {
      failed = met;
      continue;
    }
    const float once = stream.measure(1, [&] { return call(each); });
    entrants.push_back({.tried = each,
                        .calls = static_cast<int>(std::clamp(round_milliseconds / std::max(once, 1e-3F), 1.0F, 50.0F)),
                        .milliseconds = once});
  }
  if (entrants.empty()) {
    throw no_algorithm(std::string("cuBLASLt has no algorithm that computes this product: ") + failed.name);
  }
  // All are run once, and only the quickest measured again.
  constexpr std::size_t most_entrants = 8;
  std::sort(entrants.begin(), entrants.end(),
            [](const entrant& one, const entrant& other) { return one.milliseconds < other.milliseconds; });
  entrants.resize(std::min(entrants.size(), most_entrants));
  // In turn, so that the device's clock is the same for all.
  constexpr int rounds = 5;
  for (int round = 0; round < rounds && entrants.size() > 1; ++round) {
    for (entrant& each : entrants) {
      const float all = stream.measure(each.calls, [&] { return call(each.tried); });
      each.milliseconds = std::min(each.milliseconds, all / static_cast<float>(each.calls));
    }
  }
  const auto best = std::min_element(entrants.begin(), entrants.end(), [](const entrant& one, const entrant& other) {
    return one.milliseconds < other.milliseconds;
  });
  return {rows, best->tried.chosen, best->tried.workspace_bytes};
}

bool cublaslt_plan::repeats(cublaslt_library::candidate& tried, std::span<const std::int64_t> counts, operands& memory,
                            const measuring_stream& stream) {
  const std::size_t element = size_of(settings_.out.type);
  const std::size_t pitch = static_cast<std::size_t>(settings_.out.leading) * element;
  const std::size_t row = static_cast<std::size_t>(settings_.n) * element;
  // Of the rows that are read back, first and last ones.
  constexpr std::size_t most_bytes = std::size_t{32} << 20U;
  const auto most_rows = static_cast<std::int64_t>(std::max<std::size_t>(most_bytes / row, 1));
  const auto rows_from = [&](std::int64_t first, std::int64_t count) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * row);
    require_cuda(cudaMemcpy2D(bytes.data(), row, memory.out.data() + static_cast<std::size_t>(first) * pitch, pitch,
                              row, static_cast<std::size_t>(count), cudaMemcpyDeviceToHost),
                 "read a product");
    return bytes;
  };
  const auto compute = [&](std::int64_t count) {
    check(run(stream.get(), memory.arguments, count, tried.chosen, settings_.max_workspace), "run a product");
    stream.wait();
  };
  compute(1);
  const std::vector<std::byte> alone = rows_from(0, 1);
  const auto are_alike = [&](const std::vector<std::byte>& bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += row) {
      if (std::memcmp(bytes.data() + at, alone.data(), row) != 0) {
        return false;
      }
    }
    return true;
  };
  return std::all_of(counts.begin(), counts.end(), [&](std::int64_t count) {
    if (!takes_rows(tried, count)) {
      return false;
    }
    compute(count);
    const std::int64_t read = std::min(count, most_rows);
    return are_alike(rows_from(0, read)) && (read == count || are_alike(rows_from(count - read, read)));
  });
}

cublaslt_plan::bucket cublaslt_plan::first_repeatable(operands& memory, const measuring_stream& stream) {
  std::vector<std::int64_t> counts{settings_.m};
  for (std::int64_t rows = 2; rows < settings_.m; rows *= 2) {
    counts.insert(counts.end(), {rows, std::min(rows + 1, settings_.m)});
  }
  // Other orders of summing give some of these results other bits, but not each. Every row of a is the same.
  constexpr std::int64_t enough_results = 512;
  const std::int64_t rounds = enough_results / settings_.n + 1;
  const auto row = static_cast<std::size_t>(settings_.a.leading);
  const std::vector<std::byte> drawn = random_numbers(settings_.a.type, row * static_cast<std::size_t>(rounds));
  const std::size_t row_bytes = row * size_of(settings_.a.type);
  for (cublaslt_library::candidate& each : candidates(settings_.m, 1)) {
    bool always = true;
    for (std::size_t at = 0; always && at < drawn.size(); at += row_bytes) {
      fill(memory.a, std::span(drawn).subspan(at, row_bytes), bytes_of(settings_.a, settings_.m, settings_.k));
      always = repeats(each, counts, memory, stream);
    }
    if (always) {
      return {settings_.m, each.chosen, each.workspace_bytes};
    }
  }
  throw no_algorithm("cuBLASLt " + std::to_string(library_->get_version()) +
                     " has no algorithm for this product that gives a row the same bits in every batch");
}

bool cublaslt_plan::keeps_nan(const bucket& tried, operands& memory, const measuring_stream& stream) {
  constexpr std::array<std::byte, 1> nan{std::byte{0xff}};  // in each type
  fill(memory.a, nan, bytes_of(settings_.a, settings_.m, settings_.k));
  check(run(stream.get(), memory.arguments, tried.rows, tried.chosen, tried.workspace_bytes), "run a product");
  stream.wait();
  std::array<std::byte, sizeof(double)> first{};
  require_cuda(cudaMemcpy(first.data(), memory.out.data(), size_of(settings_.out.type), cudaMemcpyDeviceToHost),
               "read a product");
  return is_nan(settings_.out.type, first.data());
}

void cublaslt_plan::choose(bool powers_of_two, const void* b) {
  if (settings_.repeatable && (settings_.batch != 1 || settings_.beta != 0 || settings_.a.transposed)) {
    throw std::invalid_argument("a repeatable product has no batch, no c, and rows that lie in order");
  }
  operands memory = make_operands(b);
  const measuring_stream stream;
  check(set_bias(memory.bias.data()), "describe a product");
  if (settings_.repeatable) {
    buckets_.push_back(first_repeatable(memory, stream));
  } else {
    std::int64_t fewest = 1;
    for (std::int64_t rows = 1; powers_of_two && rows < settings_.m; rows *= 2) {
      buckets_.push_back(fastest(rows, fewest, memory, stream));
      fewest = rows + 1;
    }
    buckets_.push_back(fastest(settings_.m, powers_of_two ? fewest : settings_.m, memory, stream));
  }
  stream.wait();
  const auto loses_nan = [&](const bucket& each) { return !keeps_nan(each, memory, stream); };
  if (settings_.activation == product_activation::relu && std::any_of(buckets_.begin(), buckets_.end(), loses_nan)) {
    throw no_algorithm("the ReLU of cuBLASLt " + std::to_string(library_->get_version()) + " makes 0 of a NaN");
  }
}

cublaslt_product::cublaslt_product(std::shared_ptr<const cublaslt_library> library, const product_settings& settings,
                                   buckets rows, const void* b)
    : plan_(std::make_unique<cublaslt_plan>(std::move(library), settings)) {
  plan_->choose(rows == buckets::powers_of_two && settings.batch == 1, b);
}

cublaslt_product::cublaslt_product(cublaslt_product&& other) noexcept = default;
cublaslt_product::~cublaslt_product() = default;

std::size_t cublaslt_product::workspace_bytes() const noexcept {
  return plan_->workspace_bytes();
}

fault cublaslt_product::run(cudaStream_t stream, const product_arguments& arguments) const noexcept {
  return plan_->run(stream, arguments);
}

}  // namespace penstock
