#include "kernels/cudnn.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif

#include "kernels/convolution_steps.hpp"
#include "kernels/runtime_library.hpp"
#include "kernels/tensor.hpp"

namespace penstock {
namespace {

// The numbers of the backend API, as cudnn_graph.h of cuDNN 9 has them.
namespace kind {
constexpr int pointwise = 0;
constexpr int convolution = 1;
constexpr int engine = 2;
constexpr int engine_configuration = 3;
constexpr int heuristics = 4;
constexpr int plan = 5;
constexpr int convolution_forward = 10;
constexpr int convolution_backward_data = 12;
constexpr int pointwise_operation = 13;
constexpr int operation_graph = 15;
constexpr int variant_pack = 16;
constexpr int tensor = 17;
}  // namespace kind

namespace type {
constexpr int handle = 0;
constexpr int data_type = 1;
constexpr int boolean = 2;
constexpr int int64 = 3;
constexpr int float32 = 4;
constexpr int pointer = 6;
constexpr int convolution_mode = 7;
constexpr int heuristic_mode = 8;
constexpr int numerical_note = 11;
constexpr int pointwise_mode = 14;
constexpr int descriptor = 15;
}  // namespace type

namespace attribute {
constexpr int pointwise_mode = 0;
constexpr int pointwise_precision = 1;
constexpr int convolution_compute_type = 100;
constexpr int convolution_mode = 101;
constexpr int convolution_dilations = 102;
constexpr int convolution_strides = 103;
constexpr int convolution_paddings_after = 104;
constexpr int convolution_paddings_before = 105;
constexpr int convolution_axes = 106;
constexpr int heuristics_mode = 200;
constexpr int heuristics_graph = 201;
constexpr int heuristics_results = 202;
constexpr int configuration_engine = 300;
constexpr int plan_handle = 400;
constexpr int plan_configuration = 401;
constexpr int plan_workspace = 402;
constexpr int forward_alpha = 700;
constexpr int forward_beta = 701;
constexpr int forward_convolution = 702;
constexpr int forward_weights = 703;
constexpr int forward_x = 704;
constexpr int forward_y = 705;
constexpr int backward_alpha = 706;
constexpr int backward_beta = 707;
constexpr int backward_convolution = 708;
constexpr int backward_weights = 709;
constexpr int backward_dx = 710;
constexpr int backward_dy = 711;
constexpr int pointwise_descriptor = 750;
constexpr int pointwise_x = 751;
constexpr int pointwise_b = 752;
constexpr int pointwise_y = 753;
constexpr int graph_handle = 800;
constexpr int graph_operations = 801;
constexpr int tensor_alignment = 900;
constexpr int tensor_type = 901;
constexpr int tensor_dimensions = 902;
constexpr int tensor_strides = 903;
constexpr int tensor_id = 906;
constexpr int tensor_virtual = 907;
constexpr int pack_ids = 1000;
constexpr int pack_pointers = 1001;
constexpr int pack_workspace = 1003;
constexpr int graph_engines = 802;
constexpr int engine_graph = 1300;
constexpr int engine_index = 1301;
constexpr int engine_notes = 1303;
}  // namespace attribute

constexpr int data_float = 0;
constexpr int data_half = 2;
constexpr int data_bfloat16 = 9;
constexpr int cross_correlation = 1;
constexpr int mode_fallback = 2;
constexpr int mode_a = 3;
constexpr int pointwise_add = 0;
constexpr int pointwise_relu = 100;
constexpr int pointwise_gelu = 104;
constexpr int pointwise_gelu_tanh = 107;
constexpr int note_tensor_core = 0;
constexpr int note_down_convert = 1;
constexpr int note_reduced_sums = 2;
constexpr int note_nondeterministic = 4;
constexpr int note_winograd = 5;
constexpr int note_winograd_13x13 = 8;

#if __has_include(<cudnn_graph.h>)
static_assert(kind::pointwise == CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
static_assert(kind::convolution == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
static_assert(kind::engine == CUDNN_BACKEND_ENGINE_DESCRIPTOR);
static_assert(kind::engine_configuration == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
static_assert(kind::heuristics == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
static_assert(kind::plan == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
static_assert(kind::convolution_forward == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
static_assert(kind::convolution_backward_data == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
static_assert(kind::pointwise_operation == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
static_assert(kind::operation_graph == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
static_assert(kind::variant_pack == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
static_assert(kind::tensor == CUDNN_BACKEND_TENSOR_DESCRIPTOR);
static_assert(type::handle == CUDNN_TYPE_HANDLE && type::data_type == CUDNN_TYPE_DATA_TYPE);
static_assert(type::boolean == CUDNN_TYPE_BOOLEAN && type::int64 == CUDNN_TYPE_INT64);
static_assert(type::float32 == CUDNN_TYPE_FLOAT && type::pointer == CUDNN_TYPE_VOID_PTR);
static_assert(type::convolution_mode == CUDNN_TYPE_CONVOLUTION_MODE && type::heuristic_mode == CUDNN_TYPE_HEUR_MODE);
static_assert(type::numerical_note == CUDNN_TYPE_NUMERICAL_NOTE && type::pointwise_mode == CUDNN_TYPE_POINTWISE_MODE);
static_assert(type::descriptor == CUDNN_TYPE_BACKEND_DESCRIPTOR);
static_assert(attribute::pointwise_mode == CUDNN_ATTR_POINTWISE_MODE);
static_assert(attribute::pointwise_precision == CUDNN_ATTR_POINTWISE_MATH_PREC);
static_assert(attribute::convolution_compute_type == CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
static_assert(attribute::convolution_mode == CUDNN_ATTR_CONVOLUTION_CONV_MODE);
static_assert(attribute::convolution_dilations == CUDNN_ATTR_CONVOLUTION_DILATIONS);
static_assert(attribute::convolution_strides == CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
static_assert(attribute::convolution_paddings_after == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
static_assert(attribute::convolution_paddings_before == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
static_assert(attribute::convolution_axes == CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
static_assert(attribute::heuristics_mode == CUDNN_ATTR_ENGINEHEUR_MODE);
static_assert(attribute::heuristics_graph == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
static_assert(attribute::heuristics_results == CUDNN_ATTR_ENGINEHEUR_RESULTS);
static_assert(attribute::configuration_engine == CUDNN_ATTR_ENGINECFG_ENGINE);
static_assert(attribute::plan_handle == CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
static_assert(attribute::plan_configuration == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
static_assert(attribute::plan_workspace == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
static_assert(attribute::forward_alpha == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
static_assert(attribute::forward_beta == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
static_assert(attribute::forward_convolution == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
static_assert(attribute::forward_weights == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
static_assert(attribute::forward_x == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
static_assert(attribute::forward_y == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
static_assert(attribute::backward_alpha == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
static_assert(attribute::backward_beta == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
static_assert(attribute::backward_convolution == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
static_assert(attribute::backward_weights == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
static_assert(attribute::backward_dx == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
static_assert(attribute::backward_dy == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
static_assert(attribute::pointwise_descriptor == CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
static_assert(attribute::pointwise_x == CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
static_assert(attribute::pointwise_b == CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
static_assert(attribute::pointwise_y == CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
static_assert(attribute::graph_handle == CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
static_assert(attribute::graph_operations == CUDNN_ATTR_OPERATIONGRAPH_OPS);
static_assert(attribute::tensor_alignment == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
static_assert(attribute::tensor_type == CUDNN_ATTR_TENSOR_DATA_TYPE);
static_assert(attribute::tensor_dimensions == CUDNN_ATTR_TENSOR_DIMENSIONS);
static_assert(attribute::tensor_strides == CUDNN_ATTR_TENSOR_STRIDES);
static_assert(attribute::tensor_id == CUDNN_ATTR_TENSOR_UNIQUE_ID);
static_assert(attribute::tensor_virtual == CUDNN_ATTR_TENSOR_IS_VIRTUAL);
static_assert(attribute::pack_ids == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
static_assert(attribute::pack_pointers == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
static_assert(attribute::pack_workspace == CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
static_assert(attribute::graph_engines == CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
static_assert(attribute::engine_graph == CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
static_assert(attribute::engine_index == CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
static_assert(attribute::engine_notes == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
static_assert(data_float == CUDNN_DATA_FLOAT && data_half == CUDNN_DATA_HALF && data_bfloat16 == CUDNN_DATA_BFLOAT16);
static_assert(cross_correlation == CUDNN_CROSS_CORRELATION);
static_assert(mode_fallback == CUDNN_HEUR_MODE_FALLBACK && mode_a == CUDNN_HEUR_MODE_A);
static_assert(pointwise_add == CUDNN_POINTWISE_ADD && pointwise_relu == CUDNN_POINTWISE_RELU_FWD);
static_assert(pointwise_gelu == CUDNN_POINTWISE_GELU_FWD &&
              pointwise_gelu_tanh == CUDNN_POINTWISE_GELU_APPROX_TANH_FWD);
static_assert(note_tensor_core == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
static_assert(note_down_convert == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
static_assert(note_reduced_sums == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
static_assert(note_nondeterministic == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
static_assert(note_winograd == CUDNN_NUMERICAL_NOTE_WINOGRAD);
static_assert(note_winograd_13x13 == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
#endif

constexpr const char* installation_hint =
    "install cuDNN 9 of the same CUDA major version as the driver (package libcudnn9-cuda-13 or libcudnn9-cuda-12, or "
    "the Python package nvidia-cudnn-cu13) or set PENSTOCK_CUDNN to the path of libcudnn.so.9";
constexpr const char* library_names[] = {"libcudnn.so.9"};

/// Of the tensors in a graph.
enum tensor_id : std::int64_t { id_x = 1, id_weights, id_bias, id_y, id_sum, id_shifted };

/// Configurations of engines that are looked at, for each of cuDNN's two lists.
constexpr std::int64_t most_configurations = 64;
/// Time for trying them; the first is always tried.
constexpr double most_seconds = 1.0;

// libcudnn.so.9 opens its parts by their names alone. Opened by a path, it does not find them, unless they are there
// already. A part that can't be opened is cuDNN's to report.
void open_parts(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return;
  }
  for (const char* part : {"ops", "graph", "heuristic", "engines_runtime_compiled", "engines_precompiled", "cnn"}) {
    ::dlopen((path.substr(0, slash + 1) + "libcudnn_" + part + ".so.9").c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
}

[[noreturn]] void refuse(const cudnn_library& library, const std::string& action, const char* error) {
  std::array<char, 512> details{};
  library.last_error(details.data(), details.size());
  details.back() = '\0';
  const std::string more = details.front() == '\0' ? "" : " (" + std::string(details.data()) + ")";
  throw std::runtime_error("cuDNN " + std::to_string(library.version()) + " could not " + action + ": " + error + more);
}

void check(const cudnn_library& library, cudnn_library::status result, const std::string& action) {
  if (const fault failed = library.fault_of(result)) {
    refuse(library, action, failed.name);
  }
}

void require_cuda(cudaError_t status, const char* action) {
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw std::runtime_error(std::string("could not ") + action + ": " + cudaGetErrorName(status));
  }
}

/// One of cuDNN's descriptors.
class backend_descriptor {
 public:
  backend_descriptor() = default;
  backend_descriptor(const cudnn_library& library, int kind) : library_(&library) {
    check(library, library.create_descriptor(kind, &descriptor_),
          "create a descriptor of kind " + std::to_string(kind));
  }
  backend_descriptor(backend_descriptor&& other) noexcept
      : library_(other.library_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  backend_descriptor& operator=(backend_descriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  backend_descriptor(const backend_descriptor&) = delete;
  backend_descriptor& operator=(const backend_descriptor&) = delete;
  ~backend_descriptor() {
    if (descriptor_ != nullptr) {
      library_->destroy_descriptor(descriptor_);
    }
  }

  /// Takes one that was created.
  [[nodiscard]] static backend_descriptor adopt(const cudnn_library& library,
                                                cudnn_library::descriptor descriptor) noexcept {
    backend_descriptor made;
    made.library_ = &library;
    made.descriptor_ = descriptor;
    return made;
  }

  template <class Value>
  void set(int name, int kind, std::span<const Value> values) {
    check(*library_,
          library_->set_attribute(descriptor_, name, kind, static_cast<std::int64_t>(values.size()), values.data()),
          "set attribute " + std::to_string(name));
  }
  template <class Value>
  void set(int name, int kind, const Value& value) {
    set(name, kind, std::span<const Value>(&value, 1));
  }
  void set(int name, const backend_descriptor& value) { set(name, type::descriptor, value.descriptor_); }
  void finalize(const char* what) { check(*library_, try_finalize(), std::string("make ") + what); }
  [[nodiscard]] cudnn_library::status try_finalize() noexcept { return library_->finalize(descriptor_); }
  [[nodiscard]] cudnn_library::descriptor get() const noexcept { return descriptor_; }

 private:
  const cudnn_library* library_ = nullptr;
  cudnn_library::descriptor descriptor_ = nullptr;
};

using extents = std::array<std::int64_t, 4>;

extents packed_strides(const extents& dimensions) noexcept {
  return {dimensions[1] * dimensions[2] * dimensions[3], dimensions[2] * dimensions[3], dimensions[3], 1};
}

int data_type_of(convolution_compute compute) noexcept {
  switch (compute) {
    case convolution_compute::f16:
      return data_half;
    case convolution_compute::bf16:
      return data_bfloat16;
    case convolution_compute::f32:
    case convolution_compute::tf32:
      break;
  }
  return data_float;
}

element_type element_type_of(convolution_compute compute) noexcept {
  switch (compute) {
    case convolution_compute::f16:
      return element_type::f16;
    case convolution_compute::bf16:
      return element_type::bf16;
    case convolution_compute::f32:
    case convolution_compute::tf32:
      break;
  }
  return element_type::f32;
}

/// Device memory for trying engines.
class device_memory {
 public:
  explicit device_memory(std::size_t bytes) {
    if (bytes > 0) {
      require_cuda(cudaMalloc(&data_, bytes), "allocate device memory for trying cuDNN's engines");
      // Small numbers in each type. They are there before an engine runs: its stream would not wait for them, and what
      // it keeps in its workspace would be overwritten.
      cudaError_t filled = cudaMemset(data_, 0x3c, bytes);
      filled = filled != cudaSuccess ? filled : cudaStreamSynchronize(nullptr);
      if (filled != cudaSuccess) {
        cudaFree(data_);
        require_cuda(filled, "fill device memory");
      }
    }
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() { cudaFree(data_); }

  [[nodiscard]] void* data() const noexcept { return data_; }

 private:
  void* data_ = nullptr;
};

/// A stream with two events, to measure what runs on it.
class stopwatch {
 public:
  stopwatch() {
    require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a CUDA stream");
    if (cudaEventCreate(&start_) != cudaSuccess || cudaEventCreate(&stop_) != cudaSuccess) {
      destroy();
      throw std::runtime_error("could not create a CUDA event");
    }
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  ~stopwatch() { destroy(); }

  /// Seconds of one of `rounds` calls; infinite if one failed.
  template <class Call>
  [[nodiscard]] double seconds(int rounds, const Call& call) const {
    fault failed;
    bool good = cudaEventRecord(start_, stream_) == cudaSuccess;
    for (int round = 0; good && round < rounds; ++round) {
      failed = call(stream_);
      good = !failed;
    }
    good = cudaEventRecord(stop_, stream_) == cudaSuccess && good;
    const cudaError_t ended = cudaStreamSynchronize(stream_);
    // A context that is lost stays so: no other engine can be tried.
    require_cuda(ended, "run one of cuDNN's engines");
    float milliseconds = 0.0F;
    good = good && cudaEventElapsedTime(&milliseconds, start_, stop_) == cudaSuccess;
    if (!good) {
      static_cast<void>(cudaGetLastError());
    }
    return good ? 1e-3 * static_cast<double>(milliseconds) / rounds : std::numeric_limits<double>::infinity();
  }

 private:
  void destroy() noexcept {
    for (const cudaEvent_t each : {start_, stop_}) {
      if (each != nullptr) {
        cudaEventDestroy(each);
      }
    }
    cudaStreamDestroy(stream_);
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

}  // namespace

std::shared_ptr<const cudnn_library> cudnn_library::load() {
  const runtime_library library({.need = "a convolution on the GPU needs cuDNN 9",
                                 .kind = "a cuDNN",
                                 .variable = "PENSTOCK_CUDNN",
                                 .names = library_names,
                                 .hint = installation_hint,
                                 .with_toolkit = true});
  open_parts(library.path());
  auto found = std::make_shared<cudnn_library>();
  library.find("cudnnGetVersion", found->version);
  if (const std::size_t version = found->version(); version / 10000 != 9) {
    throw std::runtime_error(library.path() + " is cuDNN " + std::to_string(version) + ", not 9: " + installation_hint);
  }
  library.find("cudnnGetErrorString", found->error_string);
  library.find("cudnnGetLastErrorString", found->last_error);
  library.find("cudnnCreate", found->create);
  library.find("cudnnDestroy", found->destroy);
  library.find("cudnnSetStream", found->set_stream);
  library.find("cudnnBackendCreateDescriptor", found->create_descriptor);
  library.find("cudnnBackendDestroyDescriptor", found->destroy_descriptor);
  library.find("cudnnBackendFinalize", found->finalize);
  library.find("cudnnBackendSetAttribute", found->set_attribute);
  library.find("cudnnBackendGetAttribute", found->get_attribute);
  library.find("cudnnBackendExecute", found->execute);
  return found;
}

cudnn_handle::cudnn_handle(std::shared_ptr<const cudnn_library> library) : library_(std::move(library)) {
  check(*library_, library_->create(&handle_), "create its handle");
}

cudnn_handle::~cudnn_handle() {
  library_->destroy(handle_);
}

class cudnn_convolution::implementation {
 public:
  implementation(std::shared_ptr<const cudnn_handle> handle, const convolution_shape& shape,
                 const cudnn_convolution_settings& settings)
      : handle_(std::move(handle)), shape_(shape), settings_(settings), output_(shape.output_size()) {
    const bool finishes = shape_.bias || shape_.activation != convolution_activation::none;
    const stopwatch watch;
    const probe operands(*this);
    if (finishes) {
      try_engines(true, watch, operands);
    }
    try_engines(false, watch, operands);
    if (chosen_.plan.get() == nullptr) {
      throw std::runtime_error("cuDNN " + std::to_string(library().version()) + " has no engine for this convolution" +
                               (refusal_.empty() ? "" : " (" + refusal_ + ")"));
    }
  }

  [[nodiscard]] const convolution_shape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return chosen_.workspace; }
  [[nodiscard]] double seconds() const noexcept { return chosen_.seconds; }
  [[nodiscard]] bool fused() const noexcept { return chosen_.fused; }

  fault run(cudaStream_t stream, void* workspace, const void* x, const void* weights, const void* bias,
            void* y) noexcept {
    return run(chosen_, stream, {workspace, x, weights, bias, y});
  }

 private:
  /// What a run reads and writes.
  struct pointers {
    void* workspace = nullptr;
    const void* x = nullptr;
    const void* weights = nullptr;
    const void* bias = nullptr;
    void* y = nullptr;

    bool operator==(const pointers&) const = default;
  };
  /// What cuDNN knows of the pointers of an earlier run.
  struct packed_pointers {
    pointers at;
    bool with_bias = false;
    backend_descriptor pack;
    std::uint64_t used = 0;
  };
  struct engine_plan {
    backend_descriptor configuration;
    backend_descriptor plan;
    bool fused = false;
    std::size_t workspace = 0;
    double seconds = std::numeric_limits<double>::infinity();
  };

  /// Made-up data to try engines with.
  struct probe {
    device_memory x;
    device_memory weights;
    device_memory bias;
    device_memory y;

    explicit probe(const implementation& convolution)
        : x(convolution.bytes(convolution.shape_.frames * convolution.shape_.input_elements())),
          weights(convolution.bytes(convolution.shape_.weight_elements())),
          bias(convolution.bytes(convolution.shape_.filters)),
          y(convolution.bytes(convolution.shape_.frames * convolution.shape_.output_elements())) {}
  };

  [[nodiscard]] const cudnn_library& library() const noexcept { return handle_->library(); }
  [[nodiscard]] std::size_t bytes(std::int64_t elements) const noexcept {
    return static_cast<std::size_t>(elements) * size_of(element_type_of(settings_.compute));
  }

  [[nodiscard]] backend_descriptor tensor(tensor_id id, const extents& dimensions, bool is_virtual) const {
    backend_descriptor made(library(), kind::tensor);
    const extents strides = packed_strides(dimensions);
    made.set(attribute::tensor_type, type::data_type, is_virtual ? data_float : data_type_of(settings_.compute));
    made.set(attribute::tensor_dimensions, type::int64, std::span<const std::int64_t>(dimensions));
    made.set(attribute::tensor_strides, type::int64, std::span<const std::int64_t>(strides));
    made.set(attribute::tensor_id, type::int64, std::int64_t{id});
    made.set(attribute::tensor_alignment, type::int64, settings_.alignment);
    made.set(attribute::tensor_virtual, type::boolean, is_virtual);
    made.finalize("a tensor");
    return made;
  }

  [[nodiscard]] backend_descriptor convolution() const {
    backend_descriptor made(library(), kind::convolution);
    made.set(attribute::convolution_axes, type::int64, std::int64_t{2});
    made.set(attribute::convolution_compute_type, type::data_type, data_float);
    made.set(attribute::convolution_mode, type::convolution_mode, cross_correlation);
    made.set(attribute::convolution_paddings_before, type::int64, std::span<const std::int64_t>(shape_.padding));
    const convolution_shape::pair padding_after = shape_.library_padding_after();
    made.set(attribute::convolution_paddings_after, type::int64, std::span<const std::int64_t>(padding_after));
    made.set(attribute::convolution_dilations, type::int64, std::span<const std::int64_t>(shape_.dilation));
    made.set(attribute::convolution_strides, type::int64, std::span<const std::int64_t>(shape_.stride));
    made.finalize("a convolution");
    return made;
  }

  /// cuDNN does not say whether what is made of a descriptor needs it any longer, so all are kept.
  const backend_descriptor& keep(backend_descriptor&& made) {
    kept_.push_back(std::make_unique<backend_descriptor>(std::move(made)));
    return *kept_.back();
  }

  [[nodiscard]] const backend_descriptor& convolve(const backend_descriptor& x, const backend_descriptor& weights,
                                                   const backend_descriptor& y) {
    const bool back = shape_.transposed;
    backend_descriptor made(library(), back ? kind::convolution_backward_data : kind::convolution_forward);
    made.set(back ? attribute::backward_convolution : attribute::forward_convolution, keep(convolution()));
    made.set(back ? attribute::backward_dy : attribute::forward_x, x);
    made.set(back ? attribute::backward_weights : attribute::forward_weights, weights);
    made.set(back ? attribute::backward_dx : attribute::forward_y, y);
    made.set(back ? attribute::backward_alpha : attribute::forward_alpha, type::float32, 1.0F);
    made.set(back ? attribute::backward_beta : attribute::forward_beta, type::float32, 0.0F);
    made.finalize("the operation of a convolution");
    return keep(std::move(made));
  }

  /// y = mode(x, b), or mode(x) without `b`.
  [[nodiscard]] const backend_descriptor& pointwise(int mode, const backend_descriptor& x, const backend_descriptor* b,
                                                    const backend_descriptor& y) {
    backend_descriptor details(library(), kind::pointwise);
    details.set(attribute::pointwise_mode, type::pointwise_mode, mode);
    details.set(attribute::pointwise_precision, type::data_type, data_float);
    details.finalize("a pointwise function");
    backend_descriptor made(library(), kind::pointwise_operation);
    made.set(attribute::pointwise_descriptor, keep(std::move(details)));
    made.set(attribute::pointwise_x, x);
    if (b != nullptr) {
      made.set(attribute::pointwise_b, *b);
    }
    made.set(attribute::pointwise_y, y);
    made.finalize("the operation of a pointwise function");
    return keep(std::move(made));
  }

  /// The convolution alone, or with its bias and activation.
  [[nodiscard]] const backend_descriptor& graph(bool fused) {
    const bool adds = fused && shape_.bias;
    const bool activates = fused && shape_.activation != convolution_activation::none;
    const extents output{shape_.frames, shape_.filters, output_[0], output_[1]};
    const std::int64_t outer = shape_.transposed ? shape_.channels : shape_.filters;
    const std::int64_t inner = (shape_.transposed ? shape_.filters : shape_.channels) / shape_.groups;
    const backend_descriptor& x =
        keep(tensor(id_x, {shape_.frames, shape_.channels, shape_.size[0], shape_.size[1]}, false));
    const backend_descriptor& weights =
        keep(tensor(id_weights, {outer, inner, shape_.filter_size[0], shape_.filter_size[1]}, false));
    const backend_descriptor& y = keep(tensor(id_y, output, false));
    const backend_descriptor* last = adds || activates ? &keep(tensor(id_sum, output, true)) : &y;
    std::vector<cudnn_library::descriptor> operations{convolve(x, weights, *last).get()};
    if (adds) {
      const backend_descriptor& bias = keep(tensor(id_bias, {1, shape_.filters, 1, 1}, false));
      const backend_descriptor& shifted = activates ? keep(tensor(id_shifted, output, true)) : y;
      operations.push_back(pointwise(pointwise_add, *last, &bias, shifted).get());
      last = &shifted;
    }
    if (activates) {
      const int mode = shape_.activation == convolution_activation::relu   ? pointwise_relu
                       : shape_.activation == convolution_activation::gelu ? pointwise_gelu_tanh
                                                                           : pointwise_gelu;
      operations.push_back(pointwise(mode, *last, nullptr, y).get());
    }
    backend_descriptor made(library(), kind::operation_graph);
    made.set(attribute::graph_handle, type::handle, handle_->get());
    made.set(attribute::graph_operations, type::descriptor, std::span<const cudnn_library::descriptor>(operations));
    made.finalize("an operation graph");
    return keep(std::move(made));
  }

  /// The engines that cuDNN proposes, best first as it believes; none where it has none.
  [[nodiscard]] std::vector<backend_descriptor> configurations(const backend_descriptor& graph, int mode) {
    backend_descriptor heuristics(library(), kind::heuristics);
    heuristics.set(attribute::heuristics_graph, graph);
    heuristics.set(attribute::heuristics_mode, type::heuristic_mode, mode);
    if (!note(heuristics.try_finalize(), "ask cuDNN's heuristics")) {
      return {};
    }
    std::int64_t count = 0;
    if (!note(library().get_attribute(heuristics.get(), attribute::heuristics_results, type::descriptor, 0, &count,
                                      nullptr),
              "count the engines of cuDNN's heuristics")) {
      return {};
    }
    const std::int64_t wanted = std::clamp<std::int64_t>(count, 0, most_configurations);
    if (wanted == 0) {
      return {};
    }
    std::vector<backend_descriptor> found;
    std::vector<cudnn_library::descriptor> listed;
    for (std::int64_t index = 0; index < wanted; ++index) {
      found.emplace_back(library(), kind::engine_configuration);
      listed.push_back(found.back().get());
    }
    if (!note(library().get_attribute(heuristics.get(), attribute::heuristics_results, type::descriptor, wanted, &count,
                                      listed.data()),
              "list engines")) {
      return {};
    }
    found.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, wanted)));
    return found;
  }

  /// Every engine that computes the graph, as it is without choices, but for those that were looked at. The heuristics
  /// rank engines that round to TF32 first, and may name few others.
  [[nodiscard]] std::vector<backend_descriptor> other_engines(const backend_descriptor& graph) {
    std::int64_t engines = 0;
    std::int64_t count = 0;
    if (!note(library().get_attribute(graph.get(), attribute::graph_engines, type::int64, 1, &count, &engines),
              "count engines")) {
      return {};
    }
    std::vector<backend_descriptor> found;
    for (std::int64_t index = 0; index < engines; ++index) {
      if (std::find(seen_.begin(), seen_.end(), index) != seen_.end()) {
        continue;
      }
      try {
        backend_descriptor engine(library(), kind::engine);
        engine.set(attribute::engine_graph, graph);
        engine.set(attribute::engine_index, type::int64, index);
        engine.finalize("an engine");
        backend_descriptor configuration(library(), kind::engine_configuration);
        configuration.set(attribute::configuration_engine, keep(std::move(engine)));
        configuration.finalize("the configuration of an engine");
        found.push_back(std::move(configuration));
      } catch (const std::runtime_error& error) {
        refusal_ = error.what();  // most engines do not compute such a graph
      }
    }
    return found;
  }

  /// Whether an engine's numbers are what was asked for.
  [[nodiscard]] bool is_precise(const backend_descriptor& configuration) {
    const backend_descriptor engine(library(), kind::engine);
    cudnn_library::descriptor place = engine.get();
    std::int64_t count = 0;
    if (library().get_attribute(configuration.get(), attribute::configuration_engine, type::descriptor, 1, &count,
                                &place) != 0) {
      return false;
    }
    std::int64_t index = 0;
    if (library().get_attribute(engine.get(), attribute::engine_index, type::int64, 1, &count, &index) == 0) {
      seen_.push_back(index);
    }
    std::array<int, 10> notes{};  // as many as there are
    count = 0;
    if (library().get_attribute(engine.get(), attribute::engine_notes, type::numerical_note, std::int64_t{notes.size()},
                                &count, notes.data()) != 0) {
      return false;
    }
    // In f32, Winograd's way rounds more than the bound of convolve.hpp allows.
    const bool strict = settings_.compute == convolution_compute::f32;
    const auto known = static_cast<std::ptrdiff_t>(std::clamp<std::int64_t>(count, 0, std::int64_t{notes.size()}));
    return std::none_of(notes.begin(), notes.begin() + known, [strict](int each) {
      return each == note_nondeterministic || each == note_reduced_sums || each == note_winograd_13x13 ||
             (strict && (each == note_tensor_core || each == note_down_convert || each == note_winograd));
    });
  }

  /// False, and why for the error if none does, where an engine does not suit.
  bool note(cudnn_library::status result, const char* action) {
    if (const fault failed = library().fault_of(result)) {
      refusal_ = std::string("could not ") + action + ": " + failed.name;
      return false;
    }
    return true;
  }

  [[nodiscard]] engine_plan plan(backend_descriptor&& configuration, bool fused) {
    engine_plan made;
    backend_descriptor planned(library(), kind::plan);
    try {
      planned.set(attribute::plan_handle, type::handle, handle_->get());
      planned.set(attribute::plan_configuration, configuration);
      planned.finalize("a plan with an engine");
    } catch (const std::runtime_error& error) {
      refusal_ = error.what();
      return made;
    }
    std::int64_t workspace = 0;
    std::int64_t count = 0;
    if (!note(library().get_attribute(planned.get(), attribute::plan_workspace, type::int64, 1, &count, &workspace),
              "tell the size of an engine's workspace")) {
      return made;
    }
    if (static_cast<std::size_t>(workspace) > settings_.most_workspace) {
      refusal_ = "an engine's workspace of " + std::to_string(workspace) + " bytes is too large";
      return made;
    }
    made.configuration = std::move(configuration);
    made.plan = std::move(planned);
    made.fused = fused;
    made.workspace = static_cast<std::size_t>(workspace);
    return made;
  }

  void try_engines(bool fused, const stopwatch& watch, const probe& operands) {
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    const backend_descriptor* operations = nullptr;
    try {
      operations = &graph(fused);
    } catch (const std::runtime_error& error) {
      if (!fused) {
        throw;
      }
      refusal_ = error.what();
      return;
    }
    const auto try_all = [&](std::vector<backend_descriptor> listed) {
      for (backend_descriptor& configuration : listed) {
        const bool late = std::chrono::duration<double>(clock::now() - start).count() > most_seconds;
        if ((late && chosen_.plan.get() != nullptr) || !is_precise(configuration)) {
          continue;
        }
        if (engine_plan tried = plan(std::move(configuration), fused); tried.plan.get() != nullptr) {
          measure(tried, watch, operands);
          take_if_faster(std::move(tried));
        }
      }
    };
    seen_.clear();
    try_all(configurations(*operations, mode_a));
    try_all(configurations(*operations, mode_fallback));
    if (settings_.compute == convolution_compute::f32) {
      try_all(other_engines(*operations));
    }
  }

  void measure(engine_plan& tried, const stopwatch& watch, const probe& operands) {
    const device_memory workspace(tried.workspace);
    const pointers at{workspace.data(), operands.x.data(), operands.weights.data(),
                      shape_.bias ? operands.bias.data() : nullptr, operands.y.data()};
    const auto once = [&](cudaStream_t stream) { return run(tried, stream, at); };
    if (watch.seconds(1, once) == std::numeric_limits<double>::infinity()) {
      refusal_ = "an engine could not be run";
      forget();
      return;
    }
    const double first = watch.seconds(1, once);
    if (first > 2.0 * chosen_.seconds) {
      forget();
      return;
    }
    const int rounds = static_cast<int>(std::clamp(1e-3 / std::max(first, 1e-9), 2.0, 50.0));
    for (int round = 0; round < 3; ++round) {
      tried.seconds = std::min(tried.seconds, watch.seconds(rounds, once));
    }
    forget();
  }

  /// Of two that are as fast, the one that needs less memory.
  void take_if_faster(engine_plan&& tried) noexcept {
    constexpr double near = 1.02;
    const bool faster = tried.seconds * near < chosen_.seconds;
    const bool smaller = tried.workspace < chosen_.workspace && tried.seconds < chosen_.seconds * near;
    if (tried.seconds < std::numeric_limits<double>::infinity() &&
        (chosen_.plan.get() == nullptr || faster || smaller)) {
      chosen_ = std::move(tried);
    }
  }

  /// The pointers' descriptors belong to memory that is given back.
  void forget() noexcept {
    for (packed_pointers& each : packs_) {
      each = {};
    }
  }

  [[nodiscard]] fault pack(packed_pointers& into, const pointers& at, bool with_bias) const noexcept {
    cudnn_library::descriptor made = nullptr;
    if (const fault failed = library().fault_of(library().create_descriptor(kind::variant_pack, &made))) {
      return failed;
    }
    const std::array<std::int64_t, 4> ids{id_x, id_weights, id_y, id_bias};
    const std::array<const void*, 4> places{at.x, at.weights, at.y, at.bias};
    const std::int64_t count = with_bias ? 4 : 3;
    fault failed =
        library().fault_of(library().set_attribute(made, attribute::pack_ids, type::int64, count, ids.data()));
    if (!failed) {
      failed = library().fault_of(
          library().set_attribute(made, attribute::pack_pointers, type::pointer, count, places.data()));
    }
    if (!failed) {
      failed =
          library().fault_of(library().set_attribute(made, attribute::pack_workspace, type::pointer, 1, &at.workspace));
    }
    if (!failed) {
      failed = library().fault_of(library().finalize(made));
    }
    if (failed) {
      library().destroy_descriptor(made);
      return failed;
    }
    into.at = at;
    into.with_bias = with_bias;
    into.pack = backend_descriptor::adopt(library(), made);
    return {};
  }

  [[nodiscard]] fault run(const engine_plan& with, cudaStream_t stream, const pointers& at) noexcept {
    const bool with_bias = with.fused && shape_.bias;
    packed_pointers* found = nullptr;
    packed_pointers* oldest = packs_.data();
    for (packed_pointers& each : packs_) {
      if (each.used != 0 && each.with_bias == with_bias && each.at == at) {
        found = &each;
        break;
      }
      if (each.used < oldest->used) {
        oldest = &each;
      }
    }
    if (found == nullptr) {
      if (const fault failed = pack(*oldest, at, with_bias)) {
        return failed;
      }
      found = oldest;
    }
    found->used = ++runs_;
    if (const fault failed = library().fault_of(library().set_stream(handle_->get(), stream))) {
      return failed;
    }
    if (const fault failed =
            library().fault_of(library().execute(handle_->get(), with.plan.get(), found->pack.get()))) {
      return failed;
    }
    if (with.fused || (!shape_.bias && shape_.activation == convolution_activation::none)) {
      return {};
    }
    return add_bias_and_activate(stream, element_type_of(settings_.compute), shape_.activation, at.bias, at.y,
                                 shape_.frames, shape_.filters, output_[0] * output_[1]);
  }

  const std::shared_ptr<const cudnn_handle> handle_;
  const convolution_shape shape_;
  const cudnn_convolution_settings settings_;
  const convolution_shape::pair output_;
  std::vector<std::unique_ptr<backend_descriptor>> kept_;
  engine_plan chosen_;
  std::vector<std::int64_t> seen_;  ///< indices of engines
  std::string refusal_;
  std::array<packed_pointers, 64> packs_;
  std::uint64_t runs_ = 0;
};

cudnn_convolution::cudnn_convolution(std::shared_ptr<const cudnn_handle> handle, const convolution_shape& shape,
                                     const cudnn_convolution_settings& settings)
    : implementation_(std::make_unique<implementation>(std::move(handle), shape, settings)) {}
cudnn_convolution::cudnn_convolution(cudnn_convolution&&) noexcept = default;
cudnn_convolution::~cudnn_convolution() = default;

const convolution_shape& cudnn_convolution::shape() const noexcept {
  return implementation_->shape();
}

std::size_t cudnn_convolution::workspace_bytes() const noexcept {
  return implementation_->workspace_bytes();
}

double cudnn_convolution::seconds() const noexcept {
  return implementation_->seconds();
}

bool cudnn_convolution::fused() const noexcept {
  return implementation_->fused();
}

fault cudnn_convolution::run(cudaStream_t stream, void* workspace, const void* x, const void* weights, const void* bias,
                             void* y) noexcept {
  return implementation_->run(stream, workspace, x, weights, bias, y);
}

}  // namespace penstock
