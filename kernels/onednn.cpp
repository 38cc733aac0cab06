#include "kernels/onednn.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#endif

#include "kernels/function_attributes.hpp"
#include "kernels/runtime_library.hpp"

namespace penstock {

// The functions and constants that are used, the same in all of oneDNN 2. Structures are opaque: the library fills
// them. They are larger here than there.
struct onednn_library {
  using status = int;
  using dimensions = std::array<std::int64_t, 12>;
  struct memory_layout {
    alignas(16) std::array<std::byte, 2048> bytes;
  };
  struct operation_layout {
    alignas(16) std::array<std::byte, 24576> bytes;
  };
  struct argument {
    int place;
    void* memory;
  };
  struct version_numbers {
    int major;
    int minor;
    int patch;
    const char* hash;
    unsigned cpu_runtime;
    unsigned gpu_runtime;
  };

  static constexpr int f32 = 3;
  static constexpr int cpu = 1;
  static constexpr int tag_any = 1;
  static constexpr int forward_inference = 96;
  static constexpr int convolution_direct = 0x1;
  static constexpr int deconvolution_direct = 0xa;
  static constexpr int relu = 0x1f;
  static constexpr int gelu_tanh = 0xcf;
  static constexpr int gelu_erf = 0x30;
  static constexpr int scratchpad_of_user = 1;
  static constexpr int query_name = 8;
  static constexpr int query_source = 129;
  static constexpr int query_weights = 131;
  static constexpr int query_target = 133;
  static constexpr int query_scratchpad = 136;
  static constexpr int at_source = 1;
  static constexpr int at_target = 17;
  static constexpr int at_weights = 33;
  static constexpr int at_bias = 41;
  static constexpr int at_scratchpad = 80;
  static constexpr unsigned in_order = 1;

  const version_numbers* (*version)() = nullptr;
  status (*create_engine)(void** engine, int kind, std::size_t index) = nullptr;
  status (*destroy_engine)(void*) = nullptr;
  status (*create_stream)(void** stream, void* engine, unsigned flags) = nullptr;
  status (*destroy_stream)(void*) = nullptr;
  status (*layout_of_tag)(memory_layout*, int rank, const std::int64_t* dimensions, int type, int tag) = nullptr;
  status (*layout_of_strides)(memory_layout*, int rank, const std::int64_t* dimensions, int type,
                              const std::int64_t* strides) = nullptr;
  int (*equal_layouts)(const memory_layout*, const memory_layout*) = nullptr;
  std::size_t (*layout_bytes)(const memory_layout*) = nullptr;
  status (*create_memory)(void** memory, const memory_layout*, void* engine, void* data) = nullptr;
  status (*set_data)(void* memory, void* data) = nullptr;
  status (*destroy_memory)(void*) = nullptr;
  status (*create_attributes)(void**) = nullptr;
  status (*destroy_attributes)(void*) = nullptr;
  status (*set_scratchpad)(void* attributes, int mode) = nullptr;
  status (*create_post_operations)(void**) = nullptr;
  status (*destroy_post_operations)(void*) = nullptr;
  status (*append_elementwise)(void* operations, float scale, int algorithm, float alpha, float beta) = nullptr;
  status (*set_post_operations)(void* attributes, const void* operations) = nullptr;
  using initialize = status (*)(operation_layout*, int propagation, int algorithm, const memory_layout* source,
                                const memory_layout* weights, const memory_layout* bias, const memory_layout* target,
                                const std::int64_t* strides, const std::int64_t* dilations, const std::int64_t* padding,
                                const std::int64_t* padding_after);
  initialize convolution = nullptr;
  initialize deconvolution = nullptr;
  status (*create_iterator)(void** iterator, const operation_layout*, const void* attributes, void* engine,
                            const void* hint) = nullptr;
  status (*next_implementation)(void* iterator) = nullptr;
  void* (*fetch_description)(const void* iterator) = nullptr;
  status (*destroy_iterator)(void*) = nullptr;
  status (*describe_reorder)(void** description, const memory_layout* source, void* source_engine,
                             const memory_layout* target, void* target_engine, const void* attributes) = nullptr;
  status (*query)(const void* description, int what, int index, void* result) = nullptr;
  const memory_layout* (*query_layout)(const void* description, int what, int index) = nullptr;
  status (*destroy_description)(void*) = nullptr;
  status (*create_primitive)(void** primitive, const void* description) = nullptr;
  status (*execute)(const void* primitive, void* stream, int count, const argument*) = nullptr;
  status (*destroy_primitive)(void*) = nullptr;
  status (*set_cache_capacity)(int) = nullptr;
  void (*set_threads)(int) = nullptr;
  int (*get_threads)() = nullptr;
};

namespace {

/// ReLU that keeps a NaN.
PENSTOCK_VECTOR_CLONES void rectify(float* y, std::size_t count) {
#pragma omp simd
  for (std::size_t at = 0; at < count; ++at) {
    y[at] = y[at] < 0.0F ? 0.0F : y[at];
  }
}

/// The bits of the largest |x|. Those of an infinity are larger than of any number, and those of a NaN larger still.
PENSTOCK_VECTOR_CLONES std::int32_t largest_magnitude(const float* x, std::size_t count) {
  std::int32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::size_t at = 0; at < count; ++at) {
    const std::int32_t magnitude = std::bit_cast<std::int32_t>(x[at]) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

/// The bits of a magnitude of x up to which no sum x ⋆ W + b overflows, in whatever order it is taken: an infinity or
/// a NaN comes from larger ones alone. -1 if there is none.
std::int32_t largest_safe_magnitude(std::span<const float> weights, std::span<const float> bias) {
  const auto add = [](double sum, float each) { return sum + std::fabs(double{each}); };
  const double gain = std::accumulate(weights.begin(), weights.end(), 0.0, add);
  const double offset = std::accumulate(bias.begin(), bias.end(), 0.0, add);
  constexpr double most = std::numeric_limits<float>::max();
  const double safe = std::min((most / 2 - offset) / gain, most);  // half leaves room for rounding
  return safe > 0.0 ? std::bit_cast<std::int32_t>(static_cast<float>(safe)) : -1;
}

#if __has_include(<oneapi/dnnl/dnnl.h>)
static_assert(
    DNNL_VERSION_MAJOR != 2 ||
    (sizeof(dnnl_memory_desc_t) <= sizeof(onednn_library::memory_layout) &&
     sizeof(dnnl_convolution_desc_t) <= sizeof(onednn_library::operation_layout) &&
     sizeof(dnnl_exec_arg_t) == sizeof(onednn_library::argument) &&
     sizeof(dnnl_version_t) == sizeof(onednn_library::version_numbers) && dnnl_f32 == onednn_library::f32 &&
     dnnl_cpu == onednn_library::cpu && dnnl_format_tag_any == onednn_library::tag_any &&
     dnnl_forward_inference == onednn_library::forward_inference &&
     dnnl_convolution_direct == onednn_library::convolution_direct &&
     dnnl_deconvolution_direct == onednn_library::deconvolution_direct && dnnl_eltwise_relu == onednn_library::relu &&
     dnnl_eltwise_gelu_erf == onednn_library::gelu_erf && dnnl_eltwise_gelu_tanh == onednn_library::gelu_tanh &&
     dnnl_scratchpad_mode_user == onednn_library::scratchpad_of_user &&
     dnnl_query_impl_info_str == onednn_library::query_name && dnnl_query_src_md == onednn_library::query_source &&
     dnnl_query_weights_md == onednn_library::query_weights && dnnl_query_dst_md == onednn_library::query_target &&
     dnnl_query_scratchpad_md == onednn_library::query_scratchpad && DNNL_ARG_SRC == onednn_library::at_source &&
     DNNL_ARG_DST == onednn_library::at_target && DNNL_ARG_WEIGHTS == onednn_library::at_weights &&
     DNNL_ARG_BIAS == onednn_library::at_bias && DNNL_ARG_SCRATCHPAD == onednn_library::at_scratchpad));
#endif

using memory_layout = onednn_library::memory_layout;
using dimensions = onednn_library::dimensions;

constexpr const char* installation_hint =
    "install oneDNN 2 (package libdnnl2) or set PENSTOCK_ONEDNN to the path of libdnnl.so.2";
constexpr const char* library_names[] = {"libdnnl.so.2"};
constexpr std::size_t alignment = 64;

fault onednn_fault(onednn_library::status status) noexcept {
  static constexpr std::array<const char*, 7> names = {nullptr,
                                                       "dnnl_out_of_memory",
                                                       "dnnl_invalid_arguments",
                                                       "dnnl_unimplemented",
                                                       "dnnl_iterator_ends",
                                                       "dnnl_runtime_error",
                                                       "dnnl_not_required"};
  if (status < 0 || static_cast<std::size_t>(status) >= names.size()) {
    return fault{"dnnl_unknown_error"};
  }
  return fault{names[static_cast<std::size_t>(status)]};
}

void check(fault failed, const char* action) {
  if (failed) {
    throw std::runtime_error(std::string("oneDNN could not ") + action + ": " + failed.name);
  }
}

void check(onednn_library::status status, const char* action) {
  check(onednn_fault(status), action);
}

/// A handle of the library's that is given back.
class onednn_handle {
 public:
  using destroyer = onednn_library::status (*)(void*);

  onednn_handle() = default;
  explicit onednn_handle(destroyer destroy) noexcept : destroy_(destroy) {}
  onednn_handle(onednn_handle&& other) noexcept
      : destroy_(other.destroy_), handle_(std::exchange(other.handle_, nullptr)) {}
  onednn_handle& operator=(onednn_handle&& other) noexcept {
    std::swap(destroy_, other.destroy_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  onednn_handle(const onednn_handle&) = delete;
  onednn_handle& operator=(const onednn_handle&) = delete;
  ~onednn_handle() {
    if (handle_ != nullptr) {
      destroy_(handle_);
    }
  }

  [[nodiscard]] void* get() const noexcept { return handle_; }
  [[nodiscard]] void** place() noexcept { return &handle_; }

 private:
  destroyer destroy_ = nullptr;
  void* handle_ = nullptr;
};

/// While it lives, OpenMP starts no threads for this one.
class single_thread {
 public:
  explicit single_thread(const onednn_library& library) noexcept : library_(library), before_(library.get_threads()) {
    if (before_ != 1) {
      library_.set_threads(1);
    }
  }
  single_thread(const single_thread&) = delete;
  single_thread& operator=(const single_thread&) = delete;
  ~single_thread() {
    if (before_ != 1) {
      library_.set_threads(before_);
    }
  }

 private:
  const onednn_library& library_;
  int before_;
};

using aligned_bytes = std::shared_ptr<std::byte>;

aligned_bytes allocate(std::size_t bytes) {
  return {new (std::align_val_t{alignment}) std::byte[std::max<std::size_t>(bytes, 1)],
          [](std::byte* memory) { ::operator delete[](memory, std::align_val_t{alignment}); }};
}

double thread_seconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

constexpr std::size_t padded(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

memory_layout strided(const onednn_library& library, int rank, const dimensions& extents, const dimensions& strides) {
  memory_layout layout;
  check(library.layout_of_strides(&layout, rank, extents.data(), onednn_library::f32, strides.data()),
        "describe a tensor");
  return layout;
}

/// The same with its axes exchanged if the second is of one element, where oneDNN is several times as fast along the
/// second axis.
convolution_shape lying(const convolution_shape& shape) noexcept {
  convolution_shape made = shape;
  if (shape.size[1] == 1 && shape.filter_size[1] == 1 && shape.output_size()[1] == 1) {
    for (convolution_shape::pair* const each :
         {&made.size, &made.filter_size, &made.stride, &made.padding, &made.padding_after, &made.dilation}) {
      std::swap((*each)[0], (*each)[1]);
    }
  }
  return made;
}

dimensions input_extents(const convolution_shape& shape) {
  return {shape.frames, shape.channels, shape.size[0], shape.size[1]};
}

/// With so many parts of the sums, one after the other.
dimensions output_extents(const convolution_shape& shape, std::int64_t parts) {
  const convolution_shape::pair size = shape.output_size();
  return {shape.frames, parts * shape.filters, size[0], size[1]};
}

memory_layout plain_image(const onednn_library& library, const dimensions& extents) {
  return strided(library, 4, extents, {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1});
}

memory_layout channels_last_image(const onednn_library& library, const dimensions& extents) {
  return strided(library, 4, extents, {extents[1] * extents[2] * extents[3], 1, extents[3] * extents[1], extents[1]});
}

/// As oneDNN sees weights: [groups,] outputs, inputs, height, width. Those of a transposed convolution have inputs
/// before outputs in memory. Parts of the sums are groups that have all outputs each.
std::pair<dimensions, dimensions> weight_extents(const convolution_shape& shape, std::int64_t parts) {
  const std::int64_t taps = shape.filter_size[0] * shape.filter_size[1];
  if (parts > 1) {
    const std::int64_t channels = shape.channels / parts;
    return {{parts, shape.filters, channels, shape.filter_size[0], shape.filter_size[1]},
            {channels * taps, shape.channels * taps, taps, shape.filter_size[1], 1}};
  }
  const std::int64_t inputs = shape.channels / shape.groups;
  const std::int64_t outputs = shape.filters / shape.groups;
  const std::int64_t output_stride = shape.transposed ? taps : inputs * taps;
  const std::int64_t input_stride = shape.transposed ? outputs * taps : taps;
  if (shape.groups == 1) {
    return {{outputs, inputs, shape.filter_size[0], shape.filter_size[1]},
            {output_stride, input_stride, shape.filter_size[1], 1}};
  }
  return {{shape.groups, outputs, inputs, shape.filter_size[0], shape.filter_size[1]},
          {outputs * inputs * taps, output_stride, input_stride, shape.filter_size[1], 1}};
}

/// A primitive with its scratchpad, and the layouts that it reads and writes.
struct primitive {
  onednn_handle description;
  onednn_handle execution;
  std::size_t scratchpad = 0;

  [[nodiscard]] bool exists() const noexcept { return description.get() != nullptr; }
  [[nodiscard]] const memory_layout* layout(const onednn_library& library, int what) const {
    return library.query_layout(description.get(), what, 0);
  }
  void create(const onednn_library& library) {
    execution = onednn_handle(library.destroy_primitive);
    check(library.create_primitive(execution.place(), description.get()), "create a primitive");
    scratchpad = padded(library.layout_bytes(layout(library, onednn_library::query_scratchpad)));
  }
};

/// What one run at a time uses.
struct run_context {
  std::atomic<bool> taken{false};
  onednn_handle stream;
  onednn_handle plain_source;
  onednn_handle source;
  onednn_handle plain_target;
  onednn_handle target;
  onednn_handle plain_weights;
  onednn_handle weights;
  onednn_handle bias;
  onednn_handle source_scratchpad;
  onednn_handle target_scratchpad;
  onednn_handle weights_scratchpad;
  onednn_handle scratchpad;
  onednn_handle fused_scratchpad;
};

enum class image_layout { any, channels_last, plain };
constexpr image_layout image_layouts[] = {image_layout::any, image_layout::channels_last, image_layout::plain};

/// y[frame, filter, i] = the sum over parts of parts[frame, part, filter, i], in pairs, + bias[filter]. The number of
/// parts is a power of two from 2. Changes `parts`.
PENSTOCK_VECTOR_CLONES void add_parts(float* __restrict parts, std::size_t frames, std::size_t count,
                                      std::size_t filters, std::size_t length, const float* __restrict bias,
                                      float* __restrict y) noexcept {
  const std::size_t elements = filters * length;
  for (std::size_t frame = 0; frame < frames; ++frame, parts += count * elements, y += elements) {
    for (std::size_t half = count / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half * elements; ++i) {
        parts[i] += parts[half * elements + i];
      }
    }
    for (std::size_t filter = 0; filter < filters; ++filter) {
      for (std::size_t i = 0; i < length; ++i) {
        y[filter * length + i] = parts[filter * length + i] + bias[filter];
      }
    }
  }
}

/// One result in float64, of a convolution that is not transposed; before its activation.
double exact_result(const convolution_shape& shape, const float* x, const float* weights, const float* bias,
                    std::int64_t index) noexcept {
  const convolution_shape::pair output = shape.output_size();
  const std::int64_t column = index % output[1];
  const std::int64_t row = index / output[1] % output[0];
  const std::int64_t filter = index / (output[0] * output[1]) % shape.filters;
  const std::int64_t frame = index / shape.output_elements();
  const std::int64_t channels = shape.channels / shape.groups;
  const std::int64_t taps = shape.filter_size[0] * shape.filter_size[1];
  const std::int64_t plane = shape.size[0] * shape.size[1];
  const float* const image = x + (frame * shape.channels + filter / (shape.filters / shape.groups) * channels) * plane;
  double sum = double{bias[filter]};
  for (std::int64_t tap_row = 0; tap_row < shape.filter_size[0]; ++tap_row) {
    const std::int64_t at_row = row * shape.stride[0] - shape.padding[0] + tap_row * shape.dilation[0];
    for (std::int64_t tap = 0; tap < shape.filter_size[1]; ++tap) {
      const std::int64_t at = column * shape.stride[1] - shape.padding[1] + tap * shape.dilation[1];
      if (at_row < 0 || at_row >= shape.size[0] || at < 0 || at >= shape.size[1]) {
        continue;
      }
      const float* const from = image + at_row * shape.size[1] + at;
      const float* const weight = weights + filter * channels * taps + tap_row * shape.filter_size[1] + tap;
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        sum += double{from[channel * plane]} * double{weight[channel * taps]};
      }
    }
  }
  return sum;
}

}  // namespace

std::shared_ptr<const onednn_library> load_onednn() {
  const runtime_library library({.need = "a convolution on the host needs oneDNN",
                                 .kind = "a oneDNN",
                                 .variable = "PENSTOCK_ONEDNN",
                                 .names = library_names,
                                 .hint = installation_hint});
  auto found = std::make_shared<onednn_library>();
  library.find("dnnl_version", found->version);
  if (const auto* const version = found->version(); version->major != 2) {
    throw std::runtime_error(library.path() + " is oneDNN " + std::to_string(version->major) + "." +
                             std::to_string(version->minor) + ": " + installation_hint);
  }
  library.find("dnnl_engine_create", found->create_engine);
  library.find("dnnl_engine_destroy", found->destroy_engine);
  library.find("dnnl_stream_create", found->create_stream);
  library.find("dnnl_stream_destroy", found->destroy_stream);
  library.find("dnnl_memory_desc_init_by_tag", found->layout_of_tag);
  library.find("dnnl_memory_desc_init_by_strides", found->layout_of_strides);
  library.find("dnnl_memory_desc_equal", found->equal_layouts);
  library.find("dnnl_memory_desc_get_size", found->layout_bytes);
  library.find("dnnl_memory_create", found->create_memory);
  library.find("dnnl_memory_set_data_handle", found->set_data);
  library.find("dnnl_memory_destroy", found->destroy_memory);
  library.find("dnnl_primitive_attr_create", found->create_attributes);
  library.find("dnnl_primitive_attr_destroy", found->destroy_attributes);
  library.find("dnnl_primitive_attr_set_scratchpad_mode", found->set_scratchpad);
  library.find("dnnl_post_ops_create", found->create_post_operations);
  library.find("dnnl_post_ops_destroy", found->destroy_post_operations);
  library.find("dnnl_post_ops_append_eltwise", found->append_elementwise);
  library.find("dnnl_primitive_attr_set_post_ops", found->set_post_operations);
  library.find("dnnl_dilated_convolution_forward_desc_init", found->convolution);
  library.find("dnnl_dilated_deconvolution_forward_desc_init", found->deconvolution);
  library.find("dnnl_primitive_desc_iterator_create", found->create_iterator);
  library.find("dnnl_primitive_desc_iterator_next", found->next_implementation);
  library.find("dnnl_primitive_desc_iterator_fetch", found->fetch_description);
  library.find("dnnl_primitive_desc_iterator_destroy", found->destroy_iterator);
  library.find("dnnl_reorder_primitive_desc_create", found->describe_reorder);
  library.find("dnnl_primitive_desc_query", found->query);
  library.find("dnnl_primitive_desc_query_md", found->query_layout);
  library.find("dnnl_primitive_desc_destroy", found->destroy_description);
  library.find("dnnl_primitive_create", found->create_primitive);
  library.find("dnnl_primitive_execute", found->execute);
  library.find("dnnl_primitive_destroy", found->destroy_primitive);
  library.find("dnnl_set_primitive_cache_capacity", found->set_cache_capacity);
  // Of the OpenMP that it is linked with.
  library.find("omp_set_num_threads", found->set_threads);
  library.find("omp_get_max_threads", found->get_threads);
  // Its cache takes layouts for the same that differ in the strides of axes with one element only. The primitives are
  // not the same: one channel of one row gave wrong results and wrote beside its output (2.6.3).
  check(found->set_cache_capacity(0), "turn off its cache");
  return found;
}

class onednn_convolution::implementation {
 public:
  implementation(std::shared_ptr<const onednn_library> library, const convolution_shape& shape, const float* weights,
                 const float* bias, double longest, const implementation* like)
      : library_(std::move(library)), given_(shape), shape_(lying(shape)), packed_(weights != nullptr) {
    const single_thread alone(*library_);
    engine_ = onednn_handle(library_->destroy_engine);
    check(library_->create_engine(engine_.place(), onednn_library::cpu, 0), "create its engine");
    plain_source_ = plain_image(*library_, input_extents(shape_));
    plain_bias_ = strided(*library_, 1, {shape_.filters}, {1});
    choose(weights, bias, longest, like == nullptr ? nullptr : &like->chosen_);
  }

  [[nodiscard]] const convolution_shape& shape() const noexcept { return given_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return chosen_.workspace; }
  [[nodiscard]] const char* engine() const noexcept { return chosen_.name; }

  fault run(void* workspace, const float* x, const float* weights, const float* bias, float* y) const noexcept {
    const single_thread alone(*library_);
    for (const auto& each : contexts_) {
      if (!each->taken.exchange(true, std::memory_order_acquire)) {
        const fault failed = run_with(chosen_, *each, workspace, x, weights, bias, y);
        each->taken.store(false, std::memory_order_release);
        return failed;
      }
    }
    // More threads than processors.
    try {
      const std::unique_ptr<run_context> another = make_context(chosen_);
      return run_with(chosen_, *another, workspace, x, weights, bias, y);
    } catch (const std::exception&) {
      return fault{"dnnl_out_of_memory"};
    }
  }

 private:
  /// A way to compute it: the convolution in some layout, with the changes of layout around it.
  struct plan {
    primitive convolution;
    primitive fused;         ///< with oneDNN's ReLU, which makes 0 of a NaN; none where that saves no time
    primitive source;        ///< from the plain layout; none where that is read
    primitive target;        ///< to the plain layout; none where that is written
    primitive weights;       ///< from the plain layout; none where that is read
    std::int64_t parts = 1;  ///< in which the channels are summed, as groups of the convolution
    memory_layout plain_weights;
    memory_layout plain_target;
    std::size_t source_bytes = 0;
    std::size_t target_bytes = 0;
    std::size_t part_bytes = 0;  ///< of the parts' sums in the plain layout
    std::size_t weight_bytes = 0;
    std::size_t scratchpad = 0;  ///< the largest: one runs after the other
    std::size_t workspace = 0;
    const char* name = "";
    aligned_bytes packed_weights;
  };

  [[nodiscard]] memory_layout any(int rank, const dimensions& extents) const {
    memory_layout layout;
    check(library_->layout_of_tag(&layout, rank, extents.data(), onednn_library::f32, onednn_library::tag_any),
          "describe a tensor");
    return layout;
  }

  [[nodiscard]] memory_layout image(image_layout wanted, const dimensions& extents) const {
    switch (wanted) {
      case image_layout::any:
        return any(4, extents);
      case image_layout::channels_last:
        return channels_last_image(*library_, extents);
      case image_layout::plain:
        break;
    }
    return plain_image(*library_, extents);
  }

  [[nodiscard]] onednn_handle attributes(convolution_activation activation) const {
    onednn_handle made(library_->destroy_attributes);
    check(library_->create_attributes(made.place()), "create attributes");
    check(library_->set_scratchpad(made.get(), onednn_library::scratchpad_of_user), "leave its scratchpad to Penstock");
    if (activation != convolution_activation::none) {
      onednn_handle operations(library_->destroy_post_operations);
      check(library_->create_post_operations(operations.place()), "create an activation");
      const int algorithm = activation == convolution_activation::relu   ? onednn_library::relu
                            : activation == convolution_activation::gelu ? onednn_library::gelu_tanh
                                                                         : onednn_library::gelu_erf;
      check(library_->append_elementwise(operations.get(), 1.0F, algorithm, 0.0F, 0.0F), "append an activation");
      check(library_->set_post_operations(made.get(), operations.get()), "add an activation");
    }
    return made;
  }

  /// Adds what oneDNN has in that layout: its first choice, and the next, which is faster for some shapes. Those that
  /// follow are for older processors. A second transposed one may be its slowest.
  void describe(image_layout wanted, std::int64_t parts, convolution_activation activation,
                std::vector<plan>& plans) const {
    onednn_library::operation_layout operation;
    const memory_layout source = image(wanted, input_extents(shape_));
    const memory_layout target = image(wanted, output_extents(shape_, parts));
    const auto [extents, strides] = weight_extents(shape_, parts);
    const int rank = shape_.groups == 1 && parts == 1 ? 4 : 5;
    const memory_layout weights = any(rank, extents);
    const convolution_shape::pair dilation{shape_.dilation[0] - 1, shape_.dilation[1] - 1};
    const convolution_shape::pair padding_after = shape_.library_padding_after();
    const auto initialize = shape_.transposed ? library_->deconvolution : library_->convolution;
    check(initialize(&operation, onednn_library::forward_inference,
                     shape_.transposed ? onednn_library::deconvolution_direct : onednn_library::convolution_direct,
                     &source, &weights, shape_.bias && parts == 1 ? &plain_bias_ : nullptr, &target,
                     shape_.stride.data(), dilation.data(), shape_.padding.data(), padding_after.data()),
          "describe a convolution");
    const onednn_handle extras = attributes(activation);
    onednn_handle found(library_->destroy_iterator);
    if (library_->create_iterator(found.place(), &operation, extras.get(), engine_.get(), nullptr) != 0) {
      return;
    }
    const int most = shape_.transposed ? 1 : 2;
    for (int count = 0; count < most; ++count) {
      plan made;
      made.convolution.description = onednn_handle(library_->destroy_description);
      *made.convolution.description.place() = library_->fetch_description(found.get());
      if (!made.convolution.exists()) {
        return;
      }
      check(library_->query(made.convolution.description.get(), onednn_library::query_name, 0, &made.name),
            "name its implementation");
      made.parts = parts;
      made.plain_weights = strided(*library_, rank, extents, strides);
      made.plain_target = plain_image(*library_, output_extents(shape_, parts));
      plans.push_back(std::move(made));
      if (library_->next_implementation(found.get()) != 0) {
        return;
      }
    }
  }

  /// The change of one layout to another; none if they are the same.
  [[nodiscard]] primitive reorder(const memory_layout* from, const memory_layout* to) const {
    primitive made;
    if (library_->equal_layouts(from, to) != 0) {
      return made;
    }
    const onednn_handle extras = attributes(convolution_activation::none);
    made.description = onednn_handle(library_->destroy_description);
    check(library_->describe_reorder(made.description.place(), from, engine_.get(), to, engine_.get(), extras.get()),
          "change a layout");
    made.create(*library_);
    return made;
  }

  void complete(plan& made) const {
    made.convolution.create(*library_);
    if (made.fused.exists()) {
      made.fused.create(*library_);
    }
    const memory_layout* const source = made.convolution.layout(*library_, onednn_library::query_source);
    const memory_layout* const target = made.convolution.layout(*library_, onednn_library::query_target);
    const memory_layout* const weights = made.convolution.layout(*library_, onednn_library::query_weights);
    made.source = reorder(&plain_source_, source);
    made.target = reorder(target, &made.plain_target);
    made.weights = reorder(&made.plain_weights, weights);
    made.weight_bytes = padded(library_->layout_bytes(weights));
    made.source_bytes = made.source.exists() ? padded(library_->layout_bytes(source)) : 0;
    made.target_bytes = made.target.exists() ? padded(library_->layout_bytes(target)) : 0;
    made.scratchpad = std::max({made.convolution.scratchpad, made.fused.scratchpad, made.source.scratchpad,
                                made.target.scratchpad, packed_ ? 0 : made.weights.scratchpad});
    const bool packs = !packed_ && made.weights.exists();
    made.part_bytes = made.parts == 1 ? 0 : padded(library_->layout_bytes(&made.plain_target));
    made.workspace =
        made.source_bytes + made.target_bytes + made.part_bytes + made.scratchpad + (packs ? made.weight_bytes : 0);
  }

  [[nodiscard]] onednn_handle memory(const memory_layout* layout) const {
    onednn_handle made(library_->destroy_memory);
    check(library_->create_memory(made.place(), layout, engine_.get(), nullptr), "create a memory object");
    return made;
  }

  [[nodiscard]] std::unique_ptr<run_context> make_context(const plan& made) const {
    auto context = std::make_unique<run_context>();
    context->stream = onednn_handle(library_->destroy_stream);
    check(library_->create_stream(context->stream.place(), engine_.get(), onednn_library::in_order), "create a stream");
    const auto scratchpad = [&](const primitive& part) {
      return part.exists() ? memory(part.layout(*library_, onednn_library::query_scratchpad)) : onednn_handle();
    };
    context->plain_source = memory(&plain_source_);
    context->plain_target = memory(&made.plain_target);
    context->plain_weights = memory(&made.plain_weights);
    context->bias = memory(&plain_bias_);
    context->source = memory(made.convolution.layout(*library_, onednn_library::query_source));
    context->target = memory(made.convolution.layout(*library_, onednn_library::query_target));
    context->weights = memory(made.convolution.layout(*library_, onednn_library::query_weights));
    context->scratchpad = scratchpad(made.convolution);
    context->fused_scratchpad = scratchpad(made.fused);
    context->source_scratchpad = scratchpad(made.source);
    context->target_scratchpad = scratchpad(made.target);
    context->weights_scratchpad = scratchpad(made.weights);
    return context;
  }

  [[nodiscard]] fault change(const primitive& change, const run_context& context, const onednn_handle& from,
                             const onednn_handle& to, const onednn_handle& scratchpad) const noexcept {
    const std::array<onednn_library::argument, 3> arguments{{{onednn_library::at_source, from.get()},
                                                             {onednn_library::at_target, to.get()},
                                                             {onednn_library::at_scratchpad, scratchpad.get()}}};
    return onednn_fault(library_->execute(change.execution.get(), context.stream.get(),
                                          static_cast<int>(arguments.size()), arguments.data()));
  }

  void set(const onednn_handle& memory, const void* data) const noexcept {
    if (memory.get() != nullptr) {
      library_->set_data(memory.get(), const_cast<void*>(data));
    }
  }

  [[nodiscard]] fault run_with(const plan& made, const run_context& context, void* workspace, const float* x,
                               const float* weights, const float* bias, float* y) const noexcept {
    auto* room = static_cast<std::byte*>(workspace);
    const bool changes_source = made.source.exists();
    const bool changes_target = made.target.exists();
    const bool changes_weights = made.weights.exists();
    set(context.plain_source, x);
    set(context.source, changes_source ? static_cast<const void*>(room) : x);
    room += made.source_bytes;
    float* const sums = made.parts == 1 ? y : reinterpret_cast<float*>(room);
    room += made.part_bytes;
    set(context.plain_target, sums);
    set(context.target, changes_target ? static_cast<void*>(room) : sums);
    room += made.target_bytes;
    for (const onednn_handle* each : {&context.scratchpad, &context.fused_scratchpad, &context.source_scratchpad,
                                      &context.target_scratchpad, &context.weights_scratchpad}) {
      set(*each, room);
    }
    room += made.scratchpad;
    set(context.bias, packed_ ? packed_bias_.data() : bias);
    if (packed_) {
      set(context.weights, made.packed_weights.get());
    } else {
      set(context.plain_weights, weights);
      set(context.weights, changes_weights ? static_cast<const void*>(room) : weights);
      if (changes_weights) {
        if (const fault failed =
                change(made.weights, context, context.plain_weights, context.weights, context.weights_scratchpad)) {
          return failed;
        }
      }
    }
    if (changes_source) {
      if (const fault failed =
              change(made.source, context, context.plain_source, context.source, context.source_scratchpad)) {
        return failed;
      }
    }
    const bool fuses =
        made.fused.exists() &&
        largest_magnitude(x, static_cast<std::size_t>(shape_.frames * shape_.input_elements())) <= largest_safe_;
    const primitive& convolution = fuses ? made.fused : made.convolution;
    const onednn_handle& scratchpad = fuses ? context.fused_scratchpad : context.scratchpad;
    std::array<onednn_library::argument, 5> arguments{{{onednn_library::at_source, context.source.get()},
                                                       {onednn_library::at_weights, context.weights.get()},
                                                       {onednn_library::at_target, context.target.get()},
                                                       {onednn_library::at_scratchpad, scratchpad.get()},
                                                       {onednn_library::at_bias, context.bias.get()}}};
    if (const fault failed =
            onednn_fault(library_->execute(convolution.execution.get(), context.stream.get(),
                                           shape_.bias && made.parts == 1 ? 5 : 4, arguments.data()))) {
      return failed;
    }
    if (changes_target) {
      if (const fault failed =
              change(made.target, context, context.target, context.plain_target, context.target_scratchpad)) {
        return failed;
      }
    }
    if (made.parts != 1) {
      const auto filters = static_cast<std::size_t>(shape_.filters);
      add_parts(sums, static_cast<std::size_t>(shape_.frames), static_cast<std::size_t>(made.parts), filters,
                static_cast<std::size_t>(shape_.output_elements()) / filters, packed_bias_.data(), y);
    }
    if (shape_.activation == convolution_activation::relu && !fuses) {
      rectify(y, static_cast<std::size_t>(shape_.frames * shape_.output_elements()));
    }
    return {};
  }

  void pack(plan& made, const float* weights, const plan* like) const {
    if (!packed_) {
      return;
    }
    if (like != nullptr &&
        library_->equal_layouts(made.convolution.layout(*library_, onednn_library::query_weights),
                                like->convolution.layout(*library_, onednn_library::query_weights)) != 0) {
      made.packed_weights = like->packed_weights;
      return;
    }
    made.packed_weights = allocate(made.weight_bytes);
    const std::unique_ptr<run_context> context = make_context(made);
    if (!made.weights.exists()) {
      std::copy_n(reinterpret_cast<const std::byte*>(weights),
                  sizeof(float) * static_cast<std::size_t>(shape_.weight_elements()), made.packed_weights.get());
      return;
    }
    const aligned_bytes scratchpad = allocate(made.weights.scratchpad);
    set(context->plain_weights, weights);
    set(context->weights, made.packed_weights.get());
    set(context->weights_scratchpad, scratchpad.get());
    check(change(made.weights, *context, context->plain_weights, context->weights, context->weights_scratchpad),
          "pack the weights");
  }

  /// Seconds of a run; at least two are made, unless the first takes far longer than `fastest`. Of this thread's own
  /// time, so that other work on the machine matters less.
  [[nodiscard]] double measure(const plan& made, double fastest) const {
    const auto frames = static_cast<std::size_t>(shape_.frames);
    const aligned_bytes workspace = allocate(made.workspace);
    std::vector<float> x(frames * static_cast<std::size_t>(shape_.input_elements()), 0.5F);
    std::vector<float> y(frames * static_cast<std::size_t>(shape_.output_elements()));
    const std::vector<float> weights(static_cast<std::size_t>(packed_ ? 0 : shape_.weight_elements()), 0.5F);
    const std::vector<float> bias(static_cast<std::size_t>(shape_.filters));
    const std::unique_ptr<run_context> context = make_context(made);
    double least = std::numeric_limits<double>::infinity();
    double total = 0.0;
    for (int round = 0; round < 2 || (round < 50 && total < 0.003); ++round) {
      const double start = thread_seconds();
      check(run_with(made, *context, workspace.get(), x.data(), weights.data(), bias.data(), y.data()),
            "run a convolution");
      const double seconds = thread_seconds() - start;
      least = std::min(least, seconds);
      total += seconds;
      if (seconds > 0.003 && seconds > 3.0 * fastest) {
        break;
      }
    }
    return least;
  }

  /// Seconds of a run with oneDNN's ReLU or with one after it, whichever is faster: `made` keeps that.
  [[nodiscard]] double measure_fused(plan& made, double fastest) const {
    const double fused_seconds = measure(made, fastest);
    primitive fused = std::exchange(made.fused, {});
    const double seconds = measure(made, std::min(fastest, fused_seconds));
    if (fused_seconds < seconds) {
      made.fused = std::move(fused);
    }
    return std::min(fused_seconds, seconds);
  }

  [[nodiscard]] bool same(const plan& one, const plan& other) const {
    const auto same_layout = [&](int what) {
      return library_->equal_layouts(one.convolution.layout(*library_, what),
                                     other.convolution.layout(*library_, what)) != 0;
    };
    return one.parts == other.parts && std::string_view(one.name) == other.name &&
           same_layout(onednn_library::query_source) && same_layout(onednn_library::query_target) &&
           same_layout(onednn_library::query_weights);
  }

  /// In how many parts long sums are taken where an error matters: a power of two that leaves each enough channels for
  /// oneDNN to be as fast. 1 for short ones.
  [[nodiscard]] std::int64_t parts() const noexcept {
    constexpr std::int64_t long_sum = 2048;
    constexpr std::int64_t fewest_channels = 32;
    constexpr std::int64_t most_parts = 16;
    std::int64_t made = 1;
    if (shape_.groups == 1 && shape_.activation == convolution_activation::none &&
        shape_.channels * shape_.filter_size[0] * shape_.filter_size[1] >= long_sum) {
      while (made < most_parts && shape_.channels % (2 * made) == 0 &&
             shape_.channels / (2 * made) >= fewest_channels) {
        made *= 2;
      }
    }
    return made;
  }

  /// What may be chosen. The reference implementation only where there is no other: it may need minutes.
  [[nodiscard]] std::vector<plan> candidates(std::int64_t parts) const {
    const bool is_relu = shape_.activation == convolution_activation::relu;
    const convolution_activation always_fused = is_relu ? convolution_activation::none : shape_.activation;
    std::vector<plan> described;
    for (const image_layout wanted : image_layouts) {
      describe(wanted, 1, always_fused, described);
      if (parts != 1) {
        describe(wanted, parts, always_fused, described);
      }
    }
    std::vector<plan> plans;
    plan reference;
    for (plan& each : described) {
      if (std::string_view(each.name).starts_with("ref")) {
        if (each.parts == 1) {
          reference = std::move(each);
        }
      } else if (std::none_of(plans.begin(), plans.end(), [&](const plan& other) { return same(each, other); })) {
        plans.push_back(std::move(each));
      }
    }
    if (plans.empty()) {
      if (!reference.convolution.exists()) {
        throw std::runtime_error("oneDNN has no implementation of this convolution");
      }
      plans.push_back(std::move(reference));
    }
    return plans;
  }

  /// Adds the convolutions with oneDNN's ReLU, those of the same implementations. Its gemm applies ReLU to one element
  /// after the other, ten times as slow.
  void add_fused(std::vector<plan>& plans) const {
    std::vector<plan> fused;
    for (const image_layout wanted : image_layouts) {
      describe(wanted, 1, convolution_activation::relu, fused);
    }
    for (plan& each : fused) {
      const std::string_view name = each.name;
      const auto found = std::find_if(plans.begin(), plans.end(), [&](const plan& other) { return same(each, other); });
      if (found != plans.end() && !name.starts_with("ref") && name.find("gemm") == std::string_view::npos) {
        found->fused = std::move(each.convolution);
      }
    }
  }

  /// Of those that take up to `longest` times as long as the fastest, the one whose sums are nearest to exact ones, if
  /// it is clearly nearer. The root mean squares of some errors on random inputs are compared.
  [[nodiscard]] std::size_t most_accurate(const std::vector<plan>& plans, const std::vector<double>& seconds,
                                          std::size_t fastest, double longest, const float* weights) const {
    constexpr double nearer = 0.8;
    constexpr std::int64_t most_results = 509;
    std::minstd_rand random(1);
    std::uniform_real_distribution<float> between(-1.0F, 1.0F);
    std::vector<float> x(static_cast<std::size_t>(shape_.frames * shape_.input_elements()));
    std::generate(x.begin(), x.end(), [&] { return between(random); });
    std::vector<float> y(static_cast<std::size_t>(shape_.frames * shape_.output_elements()));
    const auto results = static_cast<std::int64_t>(y.size());
    const std::int64_t step = std::max<std::int64_t>(results / most_results, 1) | 1;
    std::vector<double> exact;
    for (std::int64_t index = 0; index < results; index += step) {
      exact.push_back(exact_result(shape_, x.data(), weights, packed_bias_.data(), index));
    }
    const auto error = [&](const plan& made) {
      const aligned_bytes workspace = allocate(made.workspace);
      check(run_with(made, *make_context(made), workspace.get(), x.data(), nullptr, nullptr, y.data()),
            "run a convolution");
      double sum = 0.0;
      for (std::size_t each = 0; each < exact.size(); ++each) {
        const double off = double{y[each * static_cast<std::size_t>(step)]} - exact[each];
        sum += off * off;
      }
      return std::sqrt(sum);
    };
    std::size_t best = fastest;
    double least = nearer * error(plans[fastest]);
    for (std::size_t index = 0; index < plans.size(); ++index) {
      if (index != fastest && seconds[index] <= longest * seconds[fastest]) {
        if (const double found = error(plans[index]); found < least) {
          least = found;
          best = index;
        }
      }
    }
    return best;
  }

  void choose(const float* weights, const float* bias, double longest, const plan* like) {
    packed_bias_.assign(static_cast<std::size_t>(shape_.filters), 0.0F);
    if (packed_ && shape_.bias) {
      std::copy_n(bias, packed_bias_.size(), packed_bias_.begin());
    }
    const bool looks_at_errors =
        longest > 1.0 && packed_ && !shape_.transposed && shape_.activation == convolution_activation::none;
    std::vector<plan> plans = candidates(looks_at_errors ? parts() : 1);
    if (packed_ && shape_.activation == convolution_activation::relu) {
      largest_safe_ =
          largest_safe_magnitude({weights, static_cast<std::size_t>(shape_.weight_elements())}, packed_bias_);
      if (largest_safe_ >= std::bit_cast<std::int32_t>(0.5F)) {  // below, few frames would take it
        add_fused(plans);
      }
    }
    std::vector<double> seconds(plans.size(), 0.0);
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t index = 0; index < plans.size(); ++index) {
      complete(plans[index]);
      pack(plans[index], weights, like);
      const bool fuses = plans[index].fused.exists();
      if (plans.size() == 1 && !fuses) {
        break;
      }
      seconds[index] = fuses ? measure_fused(plans[index], least) : measure(plans[index], least);
      if (seconds[index] < least) {
        least = seconds[index];
        best = index;
      }
    }
    if (looks_at_errors && plans.size() > 1) {
      best = most_accurate(plans, seconds, best, longest, weights);
    }
    chosen_ = std::move(plans[best]);
    const unsigned callers = std::max(1U, std::thread::hardware_concurrency());
    for (unsigned index = 0; index < callers; ++index) {
      contexts_.push_back(make_context(chosen_));
    }
  }

  const std::shared_ptr<const onednn_library> library_;
  const convolution_shape given_;  ///< by who asks
  const convolution_shape shape_;  ///< as it is computed
  const bool packed_;
  onednn_handle engine_;
  memory_layout plain_source_{};
  memory_layout plain_bias_{};
  std::vector<float> packed_bias_;
  std::int32_t largest_safe_ = -1;  ///< bits of the largest |x| with which `fused` is taken
  plan chosen_;
  std::vector<std::unique_ptr<run_context>> contexts_;
};

onednn_convolution::onednn_convolution(std::shared_ptr<const onednn_library> library, const convolution_shape& shape,
                                       const float* weights, const float* bias, double longest,
                                       const onednn_convolution* like)
    : implementation_(std::make_unique<implementation>(std::move(library), shape, weights, bias, longest,
                                                       like == nullptr ? nullptr : like->implementation_.get())) {}
onednn_convolution::onednn_convolution(onednn_convolution&&) noexcept = default;
onednn_convolution::~onednn_convolution() = default;

const convolution_shape& onednn_convolution::shape() const noexcept {
  return implementation_->shape();
}

std::size_t onednn_convolution::workspace_bytes() const noexcept {
  return implementation_->workspace_bytes();
}

const char* onednn_convolution::engine() const noexcept {
  return implementation_->engine();
}

fault onednn_convolution::run(void* workspace, const float* x, const float* weights, const float* bias,
                              float* y) const noexcept {
  return implementation_->run(workspace, x, weights, bias, y);
}

}  // namespace penstock
