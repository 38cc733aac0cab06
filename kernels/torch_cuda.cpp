#include "kernels/torch_cuda.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include <dlfcn.h>

#include "kernels/half.hpp"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

constexpr std::size_t operand_alignment = 16;  // that cuBLASLt's and cuDNN's fast kernels want

thread_local std::size_t allocated_here = 0;

fault taken(cudaError_t status) noexcept {
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
  return cuda_fault(status);
}

std::optional<element_type> real_type(torch_type type) noexcept {
  switch (type) {
    case torch_type::f16:
      return element_type::f16;
    case torch_type::bf16:
      return element_type::bf16;
    case torch_type::f32:
      return element_type::f32;
    case torch_type::f64:
      return element_type::f64;
    default:
      return std::nullopt;
  }
}

bool is_aligned(const torch_tensor& tensor) noexcept {
  return reinterpret_cast<std::uintptr_t>(tensor.first()) % operand_alignment == 0;
}

/// How the last two extents lie in memory; nothing if neither is without gaps.
std::optional<product_matrix> matrix_of(const torch_tensor& tensor, element_type type) noexcept {
  const auto row = static_cast<std::size_t>(tensor.extents - 2);
  const std::int64_t rows = tensor.sizes[row];
  const std::int64_t columns = tensor.sizes[row + 1];
  const std::int64_t down = tensor.strides[row];
  const std::int64_t along = tensor.strides[row + 1];
  product_matrix made{.type = type, .leading = 0, .transposed = false, .stride = 0};
  if (tensor.extents == 3 && tensor.sizes[0] > 1) {
    made.stride = tensor.strides[0];
  }
  if ((along == 1 || columns == 1) && (down >= columns || rows == 1)) {
    made.leading = rows == 1 ? columns : down;
    return made;
  }
  if ((down == 1 || rows == 1) && (along >= rows || columns == 1)) {
    made.leading = columns == 1 ? rows : along;
    made.transposed = true;
    return made;
  }
  return std::nullopt;
}

strided_copy copy_of(const torch_tensor& to, const torch_tensor& from) noexcept {
  static_assert(strided_copy::most_extents == most_torch_extents);
  strided_copy made;
  made.to = to.first();
  made.from = from.first();
  made.element = size_of(to.type);
  made.extents = static_cast<std::size_t>(to.extents);
  for (std::size_t axis = 0; axis < made.extents; ++axis) {
    made.axis[axis] = {to.sizes[axis], to.strides[axis], from.strides[axis]};
  }
  return made;
}

void make_contiguous(torch_tensor& tensor) noexcept {
  std::int64_t stride = 1;
  for (auto axis = static_cast<std::size_t>(tensor.extents); axis-- > 0;) {
    tensor.strides[axis] = stride;
    stride *= tensor.sizes[axis];
  }
  tensor.offset = 0;
}

/// The value as an element, little-endian.
std::uint64_t bits_of(torch_type type, double value) noexcept {
  const auto whole = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  switch (type) {
    case torch_type::f16:
      return to_half(static_cast<float>(value)).bits;
    case torch_type::bf16:
      return to_brain(static_cast<float>(value)).bits;
    case torch_type::f32:
    case torch_type::cf32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case torch_type::f64:
      return std::bit_cast<std::uint64_t>(value);
    case torch_type::boolean:
      return value != 0 ? 1 : 0;
    default:
      return whole;
  }
}

cudaStream_t stream_of(const torch_run* run) noexcept {
  return run == nullptr ? cudaStreamPerThread : static_cast<cudaStream_t>(run->stream());
}

}  // namespace

/// Memory of a run for as long as a call lasts; what the call enqueues still has it, since later work comes behind.
class cuda_torch_device::borrowed {
 public:
  explicit borrowed(torch_run& run) noexcept : run_(run) {}
  borrowed(const borrowed&) = delete;
  borrowed& operator=(const borrowed&) = delete;
  ~borrowed() {
    while (count_ != 0) {
      run_.release(*blocks_[--count_]);
    }
  }

  /// nullptr: there is none. At most four times.
  [[nodiscard]] std::byte* take(std::size_t bytes) noexcept {
    torch_block* const made = count_ == blocks_.size() ? nullptr : run_.allocate(bytes);
    if (made != nullptr) {
      blocks_[count_++] = made;
    }
    return made == nullptr ? nullptr : made->data;
  }
  /// A tensor of the same sizes without gaps.
  [[nodiscard]] fault make_like(const torch_tensor& source, torch_tensor& made) noexcept {
    made = source;
    make_contiguous(made);
    made.bytes = static_cast<std::size_t>(made.elements()) * size_of(made.type);
    made.data = take(made.bytes);
    return {made.data == nullptr ? "TORCH_OUT_OF_SCRATCH" : nullptr};
  }

 private:
  torch_run& run_;
  std::array<torch_block*, 5> blocks_{};
  std::size_t count_ = 0;
};

cuda_torch_device::cuda_torch_device(std::shared_ptr<torch_cuda_libraries> libraries)
    : libraries_(std::move(libraries)) {
  require_cuda(cudaGetDevice(&device_), "tell the current CUDA device");
}

std::int32_t cuda_torch_device::type() const noexcept {
  return torch_cuda;
}

std::byte* cuda_torch_device::allocate(std::size_t bytes) noexcept {
  void* memory = nullptr;
  return taken(cudaMalloc(&memory, std::max<std::size_t>(bytes, 256))) ? nullptr : static_cast<std::byte*>(memory);
}

// In a run, which prepares, what was enqueued may still use it.
void cuda_torch_device::release(std::byte* memory) noexcept {
  if (const torch_run* const run = torch_run::current()) {
    static_cast<void>(taken(cudaStreamSynchronize(stream_of(run))));
  }
  static_cast<void>(taken(cudaFree(memory)));
}

template <class Make>
fault cuda_torch_device::prepare(std::size_t call, const Make& make) noexcept {
  try {
    if (calls_.size() <= call) {
      calls_.resize(call + 1);
    }
    make(calls_[call]);
    return {};
  } catch (const std::exception& error) {
    try {
      refusal_ = error.what();
    } catch (const std::exception&) {
      refusal_.clear();
    }
    return {"TORCH_NO_ALGORITHM"};
  }
}

fault cuda_torch_device::run_strided(torch_run* run, const strided_copy& copy) noexcept {
  if (const fault failed = copy_strided(stream_of(run), copy)) {
    return failed;
  }
  return run == nullptr ? taken(cudaStreamSynchronize(cudaStreamPerThread)) : fault{};
}

fault cuda_torch_device::copy(torch_run* run, const torch_tensor& to, const torch_tensor& from) noexcept {
  const bool on_device = to.device_type == type() && from.device_type == type();
  const auto output = std::find(outputs_.begin(), outputs_.end(), static_cast<void*>(to.first()));
  if (output != outputs_.end() && on_device && to.is_contiguous() && from.is_contiguous()) {
    *output = from.first();
    return {};
  }
  if (to.is_contiguous() && from.is_contiguous()) {
    const auto bytes = static_cast<std::size_t>(to.elements()) * size_of(to.type);
    if (run == nullptr || (run->prepares() && !on_device)) {
      fault failed = run == nullptr ? fault{} : taken(cudaStreamSynchronize(stream_of(run)));
      failed = failed ? failed : taken(cudaMemcpy(to.first(), from.first(), bytes, cudaMemcpyDefault));
      return failed ? failed : taken(cudaStreamSynchronize(nullptr));  // other streams do not wait for the copy
    }
    if (on_device) {
      return taken(cudaMemcpyAsync(to.first(), from.first(), bytes, cudaMemcpyDeviceToDevice, stream_of(run)));
    }
  }
  return on_device ? run_strided(run, copy_of(to, from)) : fault{"TORCH_COPY_BETWEEN_DEVICES"};
}

fault cuda_torch_device::fill(torch_run* run, const torch_tensor& to, double value) noexcept {
  strided_copy copy = copy_of(to, to);
  copy.from = nullptr;
  copy.value = bits_of(to.type, value);
  return run_strided(run, copy);
}

fault cuda_torch_device::product(torch_run& run, const torch_product& asked, std::size_t call) noexcept {
  const std::optional<element_type> type = real_type(asked.out->type);
  if (!type) {
    return {"TORCH_PRODUCT_TYPES"};
  }
  borrowed memory(run);
  // Where operands don't lie as cuBLASLt wants them, copies do.
  torch_tensor left = *asked.left;
  torch_tensor right = *asked.right;
  torch_tensor out = *asked.out;
  std::optional<product_matrix> a = matrix_of(left, *type);
  std::optional<product_matrix> b = matrix_of(right, *type);
  std::optional<product_matrix> d = matrix_of(out, *type);
  for (auto* const each : {&left, &right}) {
    std::optional<product_matrix>& matrix = each == &left ? a : b;
    if (matrix && is_aligned(*each)) {
      continue;
    }
    torch_tensor copied;
    if (const fault failed = memory.make_like(*each, copied)) {
      return failed;
    }
    if (const fault failed = run_strided(&run, copy_of(copied, *each))) {
      return failed;
    }
    *each = copied;
    matrix = matrix_of(*each, *type);
  }
  const bool direct = d && !d->transposed && is_aligned(out);
  if (!direct) {
    if (const fault failed = memory.make_like(*asked.out, out)) {
      return failed;
    }
    d = matrix_of(out, *type);
  }
  const auto row = static_cast<std::size_t>(out.extents - 2);
  bool bias = false;
  std::optional<product_matrix> c;
  const void* added = nullptr;
  if (asked.add != nullptr) {
    const torch_tensor& add = *asked.add;
    added = add.first();
    bias = asked.beta == 1 && out.extents == 2 && is_aligned(add) && (add.strides[row] == 0 || add.sizes[row] == 1) &&
           (add.strides[row + 1] == 1 || add.sizes[row + 1] == 1);
    if (!bias) {
      if (add.strides[row + 1] != 0 && add.strides[row] != 0) {
        c = matrix_of(add, *type);
      }
      if (!c || c->transposed || !is_aligned(add)) {
        if (const fault failed = run_strided(&run, copy_of(out, add))) {
          return failed;
        }
        added = out.first();
        c = d;
      }
    }
  }
  if (run.prepares()) {
    product_settings settings{.m = out.sizes[row],
                              .n = out.sizes[row + 1],
                              .k = left.sizes[row + 1],
                              .batch = out.extents == 3 ? out.sizes[0] : 1,
                              .a = *a,
                              .b = *b,
                              .c = c ? *c : product_matrix{},
                              .out = *d,
                              .tf32 = false,
                              .alpha = asked.alpha,
                              .beta = c ? asked.beta : 0,
                              .has_bias = bias};
    if (const fault failed = prepare(call, [&](chosen& made) {
          if (libraries_->cublas == nullptr) {
            libraries_->cublas = cublaslt_library::load();
          }
          made.product.emplace(libraries_->cublas, settings);
        })) {
      return failed;
    }
  }
  if (call >= calls_.size() || !calls_[call].product) {
    return {"TORCH_CALL_NOT_PREPARED"};
  }
  const cublaslt_product& product = *calls_[call].product;
  std::byte* const workspace = product.workspace_bytes() == 0 ? nullptr : memory.take(product.workspace_bytes());
  if (workspace == nullptr && product.workspace_bytes() != 0) {
    return {"TORCH_OUT_OF_SCRATCH"};
  }
  if (const fault failed = product.run(stream_of(&run), {.a = left.first(),
                                                         .b = right.first(),
                                                         .c = c ? added : nullptr,
                                                         .bias = bias ? added : nullptr,
                                                         .out = out.first(),
                                                         .workspace = workspace})) {
    return failed;
  }
  return direct ? fault{} : run_strided(&run, copy_of(*asked.out, out));
}

fault cuda_torch_device::convolve(torch_run& run, const torch_convolution& asked, std::size_t call) noexcept {
  borrowed memory(run);
  torch_tensor input = *asked.input;
  torch_tensor weight = *asked.weight;
  for (auto* const each : {&input, &weight}) {
    if (each->is_contiguous() && is_aligned(*each)) {
      continue;
    }
    torch_tensor copied;
    if (const fault failed = memory.make_like(*each, copied)) {
      return failed;
    }
    if (const fault failed = run_strided(&run, copy_of(copied, *each))) {
      return failed;
    }
    *each = copied;
  }
  if (run.prepares()) {
    cudnn_convolution_settings settings;
    settings.alignment = operand_alignment;
    switch (input.type) {
      case torch_type::f32:
        settings.compute = convolution_compute::f32;
        break;
      case torch_type::f16:
        settings.compute = convolution_compute::f16;
        break;
      case torch_type::bf16:
        settings.compute = convolution_compute::bf16;
        break;
      default:
        return {"TORCH_CONVOLUTION_TYPES"};
    }
    if (const fault failed = prepare(call, [&](chosen& made) {
          if (libraries_->cudnn == nullptr) {
            libraries_->cudnn = std::make_shared<const cudnn_handle>(cudnn_library::load());
          }
          made.convolution.emplace(libraries_->cudnn, shape_of(asked), settings);
        })) {
      return failed;
    }
  }
  if (call >= calls_.size() || !calls_[call].convolution) {
    return {"TORCH_CALL_NOT_PREPARED"};
  }
  cudnn_convolution& convolution = *calls_[call].convolution;
  const std::size_t bytes = convolution.workspace_bytes();
  std::byte* const workspace = bytes == 0 ? nullptr : memory.take(bytes);
  if (workspace == nullptr && bytes != 0) {
    return {"TORCH_OUT_OF_SCRATCH"};
  }
  const void* const bias = asked.bias == nullptr ? nullptr : asked.bias->first();
  return convolution.run(stream_of(&run), workspace, input.first(), weight.first(), bias, asked.out->first());
}

// -- functions that packages call -------------------------------------------------------------------------------------

namespace {

cudaError_t counted_malloc(void** memory, std::size_t bytes) noexcept {
  const cudaError_t met = cudaMalloc(memory, bytes);
  if (met == cudaSuccess) {
    allocated_here += bytes;
  }
  return met;
}
// cuLaunchKernel and the like. The runtime has opened the same library.
const void* driver_function(const std::string& name) noexcept {
  if (name.size() < 3 || !name.starts_with("cu") || name[2] < 'A' || name[2] > 'Z') {
    return nullptr;
  }
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : ::dlsym(library, name.c_str());
}

// Modules that packages have loaded, each with the device of its model. PyTorch before 2.12 never unloads them.
std::mutex modules_mutex;
std::map<void*, const torch_device*>& modules() {
  static auto& all = *new std::map<void*, const torch_device*>;
  return all;
}

using driver_error = int;  // CUresult

driver_error load_module(void** made, const void* image) noexcept {
  static const auto load =
      reinterpret_cast<driver_error (*)(void**, const void*)>(const_cast<void*>(driver_function("cuModuleLoadData")));
  const driver_error met = load(made, image);
  torch_run* const run = torch_run::current();
  if (met == 0 && run != nullptr) {
    try {
      const std::lock_guard lock(modules_mutex);
      modules().emplace(*made, &run->device());
    } catch (const std::bad_alloc&) {
      // It stays until the process ends.
    }
  }
  return met;
}

driver_error unload_module(void* module) noexcept {
  static const auto unload =
      reinterpret_cast<driver_error (*)(void*)>(const_cast<void*>(driver_function("cuModuleUnload")));
  {
    const std::lock_guard lock(modules_mutex);
    modules().erase(module);
  }
  return unload(module);
}

void unload_modules_of(const torch_device& owner) noexcept {
  for (;;) {
    void* module = nullptr;
    {
      const std::lock_guard lock(modules_mutex);
      for (const auto& [each, device] : modules()) {
        module = device == &owner ? each : module;
      }
    }
    if (module == nullptr) {
      return;
    }
    static_cast<void>(unload_module(module));
  }
}

struct named_address {
  std::string_view name;
  const void* address;
};

template <class Function>
const void* address_of(Function* function) noexcept {
  return reinterpret_cast<const void*>(function);
}

// Of the runtime those that AOTInductor's headers call, and their nearest relatives.
const void* runtime_function(std::string_view name) noexcept {
  // It has another of this name, in C++.
  cudaError_t (*const event_create)(cudaEvent_t*) = &cudaEventCreate;
#define PENSTOCK_RUNTIME(name) \
  { #name, address_of(&::name) }
  static const named_address all[] = {{"cudaMalloc", address_of(&counted_malloc)},
                                      PENSTOCK_RUNTIME(cudaDeviceGetAttribute),
                                      PENSTOCK_RUNTIME(cudaDeviceSynchronize),
                                      PENSTOCK_RUNTIME(cudaDriverGetVersion),
                                      {"cudaEventCreate", address_of(event_create)},
                                      PENSTOCK_RUNTIME(cudaEventCreateWithFlags),
                                      PENSTOCK_RUNTIME(cudaEventDestroy),
                                      PENSTOCK_RUNTIME(cudaEventElapsedTime),
                                      PENSTOCK_RUNTIME(cudaEventQuery),
                                      PENSTOCK_RUNTIME(cudaEventRecord),
                                      PENSTOCK_RUNTIME(cudaEventSynchronize),
                                      PENSTOCK_RUNTIME(cudaFree),
                                      PENSTOCK_RUNTIME(cudaFreeHost),
                                      PENSTOCK_RUNTIME(cudaGetDevice),
                                      PENSTOCK_RUNTIME(cudaGetDeviceCount),
                                      PENSTOCK_RUNTIME(cudaGetErrorName),
                                      PENSTOCK_RUNTIME(cudaGetErrorString),
                                      PENSTOCK_RUNTIME(cudaGetLastError),
                                      PENSTOCK_RUNTIME(cudaMemcpy),
                                      PENSTOCK_RUNTIME(cudaMemcpyAsync),
                                      PENSTOCK_RUNTIME(cudaMemset),
                                      PENSTOCK_RUNTIME(cudaMemsetAsync),
                                      PENSTOCK_RUNTIME(cudaPeekAtLastError),
                                      PENSTOCK_RUNTIME(cudaPointerGetAttributes),
                                      PENSTOCK_RUNTIME(cudaRuntimeGetVersion),
                                      PENSTOCK_RUNTIME(cudaSetDevice),
                                      PENSTOCK_RUNTIME(cudaStreamCreate),
                                      PENSTOCK_RUNTIME(cudaStreamCreateWithFlags),
                                      PENSTOCK_RUNTIME(cudaStreamDestroy),
                                      PENSTOCK_RUNTIME(cudaStreamIsCapturing),
                                      PENSTOCK_RUNTIME(cudaStreamQuery),
                                      PENSTOCK_RUNTIME(cudaStreamSynchronize),
                                      PENSTOCK_RUNTIME(cudaStreamWaitEvent)};
#undef PENSTOCK_RUNTIME
  const auto* const found =
      std::find_if(std::begin(all), std::end(all), [name](const named_address& each) { return each.name == name; });
  return found == std::end(all) ? nullptr : found->address;
}

}  // namespace

const void* own_cuda_function(const std::string& name) noexcept {
  if (const void* const found = own_torch_function(name)) {
    return found;
  }
  if (const void* const found = runtime_function(name)) {
    return found;
  }
  const void* const found = driver_function(name);
  if (found != nullptr && name == "cuModuleLoadData") {
    return address_of(&load_module);
  }
  return found != nullptr && name == "cuModuleUnload" ? address_of(&unload_module) : found;
}

// The model is gone, and what it has unloaded itself.
cuda_torch_device::~cuda_torch_device() {
  unload_modules_of(*this);
}

std::size_t torch_cuda_allocated() noexcept {
  return allocated_here;
}

}  // namespace penstock
