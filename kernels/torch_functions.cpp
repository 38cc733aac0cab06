#include "kernels/torch_functions.hpp"

#include <algorithm>
#include <cctype>
#include <new>
#include <stdexcept>
#include <utility>

#include <dlfcn.h>

namespace penstock {
namespace {

thread_local torch_run* run_of_thread = nullptr;
thread_local torch_device* device_of_thread = nullptr;

/// Of tensors: a cache line, or what a GPU reads at once.
std::size_t alignment_of(const torch_device& device) noexcept {
  return device.type() == torch_cuda ? 256 : 64;
}

std::size_t aligned(std::size_t bytes, std::size_t alignment) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

convolution_shape shape_of(const torch_convolution& asked) noexcept {
  const torch_tensor& input = *asked.input;
  const torch_tensor& weight = *asked.weight;
  const std::size_t axes = asked.stride.size();
  convolution_shape made;
  made.frames = input.sizes[0];
  made.channels = input.sizes[1];
  made.filters = asked.out->sizes[1];
  made.groups = asked.groups;
  made.transposed = asked.transposed;
  made.bias = asked.bias != nullptr;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::size_t to = axis + 2 - axes;
    made.size[to] = input.sizes[axis + 2];
    made.filter_size[to] = weight.sizes[axis + 2];
    made.stride[to] = asked.stride[axis];
    made.dilation[to] = asked.dilation[axis];
    made.padding[to] = asked.padding[axis];
    made.padding_after[to] = asked.padding[axis] - (asked.transposed ? asked.output_padding[axis] : 0);
  }
  return made;
}

std::size_t size_of(torch_type type) noexcept {
  switch (type) {
    case torch_type::u8:
    case torch_type::i8:
    case torch_type::boolean:
      return 1;
    case torch_type::i16:
    case torch_type::u16:
    case torch_type::f16:
    case torch_type::bf16:
      return 2;
    case torch_type::i32:
    case torch_type::f32:
      return 4;
    case torch_type::i64:
    case torch_type::f64:
    case torch_type::cf32:
      return 8;
  }
  return 0;
}

std::int64_t torch_tensor::elements() const noexcept {
  std::int64_t count = 1;
  for (std::int64_t axis = 0; axis < extents; ++axis) {
    count *= sizes[static_cast<std::size_t>(axis)];
  }
  return count;
}

bool torch_tensor::is_contiguous() const noexcept {
  std::int64_t expected = 1;
  for (auto axis = static_cast<std::size_t>(extents); axis-- > 0;) {
    if (sizes[axis] != 1 && strides[axis] != expected) {
      return false;
    }
    expected *= sizes[axis];
  }
  return true;
}

// -- runs -------------------------------------------------------------------------------------------------------------

torch_run::torch_run(torch_device& device, void* stream)
    : device_(device), stream_(stream), prepares_(true), outer_(std::exchange(run_of_thread, this)) {}

torch_run::torch_run(torch_device& device, void* stream, std::span<std::byte> elements, std::span<torch_tensor> tensors,
                     std::span<torch_block> blocks) noexcept
    : device_(device),
      stream_(stream),
      prepares_(false),
      outer_(std::exchange(run_of_thread, this)),
      elements_(elements),
      tensors_(tensors),
      blocks_(blocks) {}

torch_run::~torch_run() {
  run_of_thread = outer_;
  for (torch_block* const each : made_blocks_) {
    if (each->data != nullptr) {
      device_.release(each->data);
    }
    delete each;
  }
  for (torch_tensor* const each : made_tensors_) {
    delete each;
  }
}

torch_run* torch_run::current() noexcept {
  return run_of_thread;
}

// A stack: what is freed below the top waits until all above it is freed.
torch_block* torch_run::allocate(std::size_t bytes) noexcept {
  const std::size_t room = aligned(bytes, alignment_of(device_));
  torch_block* made = nullptr;
  if (prepares_) {
    try {
      made_blocks_.reserve(made_blocks_.size() + 1);
      made = new torch_block;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    made_blocks_.push_back(made);
    made->data = device_.allocate(std::max<std::size_t>(room, 1));
    if (made->data == nullptr) {
      return nullptr;
    }
  } else {
    if (used_.blocks == blocks_.size() || room > elements_.size() - used_.bytes) {
      return nullptr;
    }
    made = &blocks_[used_.blocks];
    *made = {};
    made->data = elements_.data() + used_.bytes;
  }
  made->bytes = bytes;
  made->begin = used_.bytes;
  made->users = 1;
  used_.bytes += room;
  ++used_.blocks;
  most_.bytes = std::max(most_.bytes, used_.bytes);
  most_.blocks = std::max(most_.blocks, used_.blocks);
  return made;
}

void torch_run::release(torch_block& block) noexcept {
  if (--block.users > 0) {
    return;
  }
  while (used_.blocks != 0) {
    torch_block& top = prepares_ ? *made_blocks_.back() : blocks_[used_.blocks - 1];
    if (top.users > 0) {
      return;
    }
    used_.bytes = top.begin;
    --used_.blocks;
    if (prepares_) {
      // Work that was enqueued may still use it: the device frees it behind that.
      device_.release(top.data);
      delete &top;
      made_blocks_.pop_back();
    }
  }
}

torch_tensor* torch_run::make_tensor() noexcept {
  torch_tensor* made = free_;
  if (made != nullptr) {
    free_ = made->next_free;
  } else if (prepares_) {
    try {
      made_tensors_.reserve(made_tensors_.size() + 1);
      made_tensors_.push_back(made = new torch_tensor);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    most_.tensors = made_tensors_.size();
  } else if (used_.tensors != tensors_.size()) {
    made = &tensors_[used_.tensors++];
  } else {
    return nullptr;
  }
  *made = {};
  made->of_run = true;
  return made;
}

void torch_run::release(torch_tensor& tensor) noexcept {
  if (tensor.block != nullptr) {
    release(*tensor.block);
    tensor.block = nullptr;
  }
  tensor.next_free = std::exchange(free_, &tensor);
}

torch_setting::torch_setting(torch_device& device) noexcept : outer_(std::exchange(device_of_thread, &device)) {}

torch_setting::~torch_setting() {
  device_of_thread = outer_;
}

// -- the functions ----------------------------------------------------------------------------------------------------

namespace {
namespace aoti {

using handle = torch_tensor*;
using error = std::int32_t;
using extents = const std::int64_t*;

/// Runs a function's work. What fails is kept for the run.
template <class Work>
error guarded(const Work& work) noexcept {
  const fault failed = work();
  if (failed && run_of_thread != nullptr) {
    run_of_thread->meet(failed);
  }
  return failed ? 1 : 0;
}

template <std::int32_t Number>
std::int32_t number() noexcept {
  return Number;
}

torch_device* device() noexcept {
  return run_of_thread != nullptr ? &run_of_thread->device() : device_of_thread;
}

torch_tensor* record() noexcept {
  return run_of_thread != nullptr ? run_of_thread->make_tensor() : new (std::nothrow) torch_tensor;
}

fault describe(torch_tensor& made, std::int64_t count, extents sizes, extents strides, std::int64_t offset) noexcept {
  if (count < 0 || count > static_cast<std::int64_t>(most_torch_extents)) {
    return {"TORCH_TOO_MANY_EXTENTS"};
  }
  made.extents = count;
  std::copy_n(sizes, count, made.sizes.begin());
  std::copy_n(strides, count, made.strides.begin());
  made.offset = offset;
  return {};
}

/// Lets go of a record and of its memory.
void drop(torch_tensor* tensor) noexcept {
  if (tensor == nullptr) {
    return;
  }
  if (tensor->of_run) {
    if (run_of_thread != nullptr) {
      run_of_thread->release(*tensor);
    }
    return;
  }
  torch_block* const block = tensor->block;
  if (block != nullptr && --block->users == 0) {
    block->owner->release(block->data);
    delete block;
  }
  delete tensor;
}

/// Another tensor in the memory of one, as a whole. Memory of a model's constants outlives its runs, whose threads
/// don't count it.
fault view_of(const torch_tensor& source, handle* result) noexcept {
  torch_tensor* const made = record();
  if (made == nullptr) {
    return {"TORCH_TOO_MANY_TENSORS"};
  }
  const bool of_run = made->of_run;
  *made = source;
  made->of_run = of_run;
  made->next_free = nullptr;
  if (made->block != nullptr) {
    if (of_run == (made->block->owner == nullptr)) {
      ++made->block->users;
    } else {
      made->block = nullptr;
    }
  }
  *result = made;
  return {};
}

/// With memory of its own.
fault make(std::int64_t count, extents sizes, extents strides, std::int32_t type, handle* result) noexcept {
  torch_device* const where = device();
  const std::size_t element = size_of(torch_type{type});
  if (where == nullptr || element == 0) {
    return {where == nullptr ? "TORCH_NO_DEVICE" : "TORCH_UNKNOWN_TYPE"};
  }
  torch_tensor* const made = record();
  if (made == nullptr) {
    return {"TORCH_TOO_MANY_TENSORS"};
  }
  if (const fault failed = describe(*made, count, sizes, strides, 0)) {
    drop(made);
    return failed;
  }
  std::int64_t last = 0;
  for (std::int64_t axis = 0; axis < count; ++axis) {
    last += std::max<std::int64_t>(sizes[axis] - 1, 0) * strides[axis];
  }
  made->type = torch_type{type};
  made->bytes = made->elements() == 0 ? 0 : (static_cast<std::size_t>(last) + 1) * element;
  made->device_type = where->type();
  made->device_index = where->index();
  if (made->of_run) {
    made->block = run_of_thread->allocate(made->bytes);
  } else if (auto* const block = new (std::nothrow) torch_block; block != nullptr) {
    block->data = where->allocate(std::max<std::size_t>(made->bytes, 1));
    block->users = 1;
    block->owner = where;
    if (block->data == nullptr) {
      delete block;
    } else {
      made->block = block;
    }
  }
  if (made->block == nullptr) {
    drop(made);
    return {"TORCH_OUT_OF_SCRATCH"};
  }
  made->data = made->block->data;
  *result = made;
  return {};
}

/// Row-major, without gaps.
fault make_contiguous(std::int64_t count, extents sizes, torch_type type, handle* result) noexcept {
  std::array<std::int64_t, most_torch_extents> strides{};
  std::int64_t stride = 1;
  for (auto axis = static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, most_torch_extents)); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(sizes[axis], 1);
  }
  return make(count, sizes, strides.data(), static_cast<std::int32_t>(type), result);
}

error empty_strided(std::int64_t count, extents sizes, extents strides, std::int32_t type, std::int32_t /*device*/,
                    std::int32_t /*index*/, handle* result) noexcept {
  return guarded([&] { return make(count, sizes, strides, type, result); });
}

error tensor_from_blob(void* data, std::int64_t count, extents sizes, extents strides, std::int64_t offset,
                       std::int32_t type, std::int32_t device_type, std::int32_t device_index,
                       handle* result) noexcept {
  return guarded([&]() -> fault {
    torch_tensor* const made = record();
    if (made == nullptr) {
      return {"TORCH_TOO_MANY_TENSORS"};
    }
    made->data = static_cast<std::byte*>(data);
    made->is_constant = run_of_thread == nullptr;
    made->type = torch_type{type};
    made->device_type = device_type;
    made->device_index = std::max(device_index, 0);
    fault failed = describe(*made, count, sizes, strides, offset);
    if (size_of(made->type) == 0) {
      failed = {"TORCH_UNKNOWN_TYPE"};
    }
    if (failed) {
      drop(made);
      return failed;
    }
    std::int64_t last = offset;
    for (std::int64_t axis = 0; axis < count; ++axis) {
      last += std::max<std::int64_t>(sizes[axis] - 1, 0) * strides[axis];
    }
    made->bytes = made->elements() == 0 ? 0 : (static_cast<std::size_t>(last) + 1) * size_of(made->type);
    *result = made;
    return {};
  });
}

error tensor_from_blob_v2(void* data, std::int64_t count, extents sizes, extents strides, std::int64_t offset,
                          std::int32_t type, std::int32_t device_type, std::int32_t device_index, handle* result,
                          std::int32_t layout, const std::uint8_t* /*metadata*/,
                          std::int64_t /*metadata_size*/) noexcept {
  if (layout != 0) {
    return guarded([] { return fault{"TORCH_UNKNOWN_LAYOUT"}; });
  }
  return tensor_from_blob(data, count, sizes, strides, offset, type, device_type, device_index, result);
}

error delete_tensor_object(handle tensor) noexcept {
  drop(tensor);
  return 0;
}

error new_tensor_handle(handle tensor, handle* result) noexcept {
  return guarded([&] { return view_of(*tensor, result); });
}

error reinterpret_tensor(handle tensor, std::int64_t count, extents sizes, extents strides, std::int64_t offset,
                         handle* result) noexcept {
  return guarded([&]() -> fault {
    if (const fault failed = view_of(*tensor, result)) {
      return failed;
    }
    const fault failed = describe(**result, count, sizes, strides, tensor->offset + offset);
    if (failed) {
      drop(*result);
    }
    return failed;
  });
}

error as_strided(handle tensor, extents sizes, extents strides, handle* result) noexcept {
  return reinterpret_tensor(tensor, tensor->extents, sizes, strides, 0, result);
}

/// Of a tensor of bytes that is the pool.
error alloc_from_pool(handle pool, std::int64_t offset_bytes, std::int32_t type, std::int64_t count, extents sizes,
                      extents strides, handle* result) noexcept {
  return guarded([&]() -> fault {
    if (size_of(torch_type{type}) == 0) {
      return {"TORCH_UNKNOWN_TYPE"};
    }
    if (const fault failed = view_of(*pool, result)) {
      return failed;
    }
    torch_tensor& made = **result;
    made.data = pool->first() + offset_bytes;
    made.type = torch_type{type};
    const fault failed = describe(made, count, sizes, strides, 0);
    if (failed) {
      drop(*result);
    }
    return failed;
  });
}

error get_data_ptr(handle tensor, void** result) noexcept {
  *result = tensor->first();
  return 0;
}
error get_storage_size(handle tensor, std::int64_t* result) noexcept {
  *result = static_cast<std::int64_t>(tensor->bytes);
  return 0;
}
error get_storage_numel(handle tensor, std::int64_t* result) noexcept {
  *result = static_cast<std::int64_t>(tensor->bytes / size_of(tensor->type));
  return 0;
}
error get_dim(handle tensor, std::int64_t* result) noexcept {
  *result = tensor->extents;
  return 0;
}
error get_numel(handle tensor, std::int64_t* result) noexcept {
  *result = tensor->elements();
  return 0;
}
error get_sizes(handle tensor, std::int64_t** result) noexcept {
  *result = tensor->sizes.data();
  return 0;
}
error get_strides(handle tensor, std::int64_t** result) noexcept {
  *result = tensor->strides.data();
  return 0;
}
error get_one(const torch_tensor& tensor, const std::array<std::int64_t, most_torch_extents>& all, std::int64_t axis,
              std::int64_t* result) noexcept {
  const std::int64_t wanted = axis < 0 ? axis + tensor.extents : axis;
  if (wanted < 0 || wanted >= tensor.extents) {
    return guarded([] { return fault{"TORCH_NO_SUCH_EXTENT"}; });
  }
  *result = all[static_cast<std::size_t>(wanted)];
  return 0;
}
error get_size(handle tensor, std::int64_t axis, std::int64_t* result) noexcept {
  return get_one(*tensor, tensor->sizes, axis, result);
}
error get_stride(handle tensor, std::int64_t axis, std::int64_t* result) noexcept {
  return get_one(*tensor, tensor->strides, axis, result);
}
error get_dtype(handle tensor, std::int32_t* result) noexcept {
  *result = static_cast<std::int32_t>(tensor->type);
  return 0;
}
error get_device_type(handle tensor, std::int32_t* result) noexcept {
  *result = tensor->device_type;
  return 0;
}
error get_device_index(handle tensor, std::int32_t* result) noexcept {
  *result = tensor->device_index;
  return 0;
}
error get_layout(handle /*tensor*/, std::int32_t* result) noexcept {
  *result = 0;
  return 0;
}
error get_storage_offset(handle tensor, std::int64_t* result) noexcept {
  *result = tensor->offset;
  return 0;
}
error is_contiguous(handle tensor, bool* result) noexcept {
  *result = tensor->is_contiguous();
  return 0;
}
error is_defined(handle tensor, bool* result) noexcept {
  *result = tensor != nullptr;
  return 0;
}
error get_current_device_index(std::int32_t* result) noexcept {
  const torch_device* const where = device();
  *result = where == nullptr ? 0 : where->index();
  return 0;
}

/// `from` with the sizes of `to`; extents of 1 and missing ones are repeated.
fault broadcast(const torch_tensor& to, torch_tensor& from) noexcept {
  const std::int64_t missing = to.extents - from.extents;
  torch_tensor wide = from;
  if (missing < 0) {
    return {"TORCH_SIZES_DIFFER"};
  }
  for (std::int64_t axis = 0; axis < to.extents; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const bool repeats = axis < missing || from.sizes[static_cast<std::size_t>(axis - missing)] == 1;
    if (!repeats && from.sizes[static_cast<std::size_t>(axis - missing)] != to.sizes[at]) {
      return {"TORCH_SIZES_DIFFER"};
    }
    wide.sizes[at] = to.sizes[at];
    wide.strides[at] = repeats ? 0 : from.strides[static_cast<std::size_t>(axis - missing)];
  }
  wide.extents = to.extents;
  from = wide;
  return {};
}

fault copy_to(const torch_tensor& to, const torch_tensor& source) noexcept {
  torch_device* const where = device();
  if (where == nullptr || to.type != source.type) {
    return {where == nullptr ? "TORCH_NO_DEVICE" : "TORCH_COPY_OF_ANOTHER_TYPE"};
  }
  torch_tensor from = source;
  if (const fault failed = broadcast(to, from)) {
    return failed;
  }
  return to.elements() == 0 ? fault{} : where->copy(run_of_thread, to, from);
}

error copy(handle to, handle from, std::int32_t /*non_blocking*/) noexcept {
  return guarded([&] { return copy_to(*to, *from); });
}
error tensor_copy(handle from, handle to) noexcept {
  return guarded([&] { return copy_to(*to, *from); });
}

error clone(handle tensor, handle* result) noexcept {
  return guarded([&]() -> fault {
    if (const fault failed = make_contiguous(tensor->extents, tensor->sizes.data(), tensor->type, result)) {
      return failed;
    }
    const fault failed = copy_to(**result, *tensor);
    if (failed) {
      drop(*result);
    }
    return failed;
  });
}

error clone_preserve_strides(handle tensor, handle* result) noexcept {
  return guarded([&]() -> fault {
    if (const fault failed = make(tensor->extents, tensor->sizes.data(), tensor->strides.data(),
                                  static_cast<std::int32_t>(tensor->type), result)) {
      return failed;
    }
    const fault failed = copy_to(**result, *tensor);
    if (failed) {
      drop(*result);
    }
    return failed;
  });
}

fault fill_with(const torch_tensor& tensor, double value) noexcept {
  torch_device* const where = device();
  if (where == nullptr) {
    return {"TORCH_NO_DEVICE"};
  }
  return tensor.elements() == 0 ? fault{} : where->fill(run_of_thread, tensor, value);
}
error zero(handle tensor) noexcept {
  return guarded([&] { return fill_with(*tensor, 0); });
}
error fill_scalar(handle tensor, double value) noexcept {
  return guarded([&] { return fill_with(*tensor, value); });
}

/// Of `rank` extents each: matrices, or as many pairs of them as the product has.
fault multiply(torch_product asked, std::int64_t rank) noexcept {
  const torch_tensor& left = *asked.left;
  const torch_tensor& right = *asked.right;
  const torch_tensor& out = *asked.out;
  const auto row = static_cast<std::size_t>(rank - 2);
  if (left.extents != rank || right.extents != rank || out.extents != rank || left.sizes[row] != out.sizes[row] ||
      right.sizes[row + 1] != out.sizes[row + 1] || left.sizes[row + 1] != right.sizes[row] ||
      (rank == 3 && (left.sizes[0] != out.sizes[0] || right.sizes[0] != out.sizes[0]))) {
    return {"TORCH_PRODUCT_SIZES"};
  }
  if (left.type != out.type || right.type != out.type || (asked.add != nullptr && asked.add->type != out.type)) {
    return {"TORCH_PRODUCT_TYPES"};
  }
  torch_tensor add;
  if (asked.add != nullptr && asked.beta != 0) {
    add = *asked.add;
    if (const fault failed = broadcast(out, add)) {
      return failed;
    }
    asked.add = &add;
  } else {
    asked.add = nullptr;
  }
  torch_run* const run = run_of_thread;
  if (run == nullptr) {
    return {"TORCH_PRODUCT_OUTSIDE_OF_A_RUN"};
  }
  const std::size_t call = run->next_call();
  return out.elements() == 0 ? fault{} : run->device().product(*run, asked, call);
}

error addmm_out(handle out, handle add, handle left, handle right, double beta, double alpha) noexcept {
  return guarded([&] { return multiply({add, left, right, out, alpha, beta}, 2); });
}
error mm_out(handle out, handle left, handle right) noexcept {
  return guarded([&] { return multiply({nullptr, left, right, out, 1, 0}, 2); });
}
error baddbmm_out(handle out, handle add, handle left, handle right, double beta, double alpha) noexcept {
  return guarded([&] { return multiply({add, left, right, out, alpha, beta}, 3); });
}
error bmm_out(handle out, handle left, handle right) noexcept {
  return guarded([&] { return multiply({nullptr, left, right, out, 1, 0}, 3); });
}

fault convolve(torch_convolution asked, handle* result) noexcept {
  const torch_tensor& input = *asked.input;
  const torch_tensor& weight = *asked.weight;
  const auto axes = static_cast<std::size_t>(std::max<std::int64_t>(input.extents - 2, 0));
  torch_run* const run = run_of_thread;
  if (run == nullptr) {
    return {"TORCH_CONVOLUTION_OUTSIDE_OF_A_RUN"};
  }
  if (axes < 1 || axes > 2 || weight.extents != input.extents || asked.stride.size() != axes ||
      asked.padding.size() != axes || asked.dilation.size() != axes || asked.groups < 1 ||
      (asked.transposed && asked.output_padding.size() != axes)) {
    return {"TORCH_CONVOLUTION_EXTENTS"};
  }
  if (weight.type != input.type || (asked.bias != nullptr && asked.bias->type != input.type)) {
    return {"TORCH_CONVOLUTION_TYPES"};
  }
  std::array<std::int64_t, most_torch_extents> sizes{};
  sizes[0] = input.sizes[0];
  sizes[1] = asked.transposed ? weight.sizes[1] * asked.groups : weight.sizes[0];
  const std::int64_t channels = asked.transposed ? weight.sizes[0] : weight.sizes[1] * asked.groups;
  bool fits = channels == input.sizes[1];
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t reach = (weight.sizes[axis + 2] - 1) * asked.dilation[axis];
    const std::int64_t size = input.sizes[axis + 2];
    const std::int64_t padded = 2 * asked.padding[axis];
    fits = fits && asked.stride[axis] > 0 && (asked.transposed || size + padded > reach);
    if (!fits) {
      break;
    }
    sizes[axis + 2] = asked.transposed
                          ? (size - 1) * asked.stride[axis] + reach + 1 - padded + asked.output_padding[axis]
                          : (size + padded - reach - 1) / asked.stride[axis] + 1;
    fits = fits && sizes[axis + 2] > 0;
  }
  if (!fits) {
    return {"TORCH_CONVOLUTION_SIZES"};
  }
  if (const fault failed = make_contiguous(input.extents, sizes.data(), input.type, result)) {
    return failed;
  }
  asked.out = *result;
  const std::size_t call = run->next_call();
  const fault failed = asked.out->elements() == 0 ? fault{} : run->device().convolve(*run, asked, call);
  if (failed) {
    drop(*result);
  }
  return failed;
}

error convolution(handle input, handle weight, handle* bias, extents stride, std::int64_t strides, extents padding,
                  std::int64_t paddings, extents dilation, std::int64_t dilations, std::int32_t transposed,
                  extents output_padding, std::int64_t output_paddings, std::int64_t groups, handle* result) noexcept {
  const auto all = [](extents first, std::int64_t count) {
    return std::span(first, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  };
  return guarded([&] {
    return convolve({.input = input,
                     .weight = weight,
                     .bias = bias == nullptr ? nullptr : *bias,
                     .stride = all(stride, strides),
                     .padding = all(padding, paddings),
                     .dilation = all(dilation, dilations),
                     .output_padding = all(output_padding, output_paddings),
                     .transposed = transposed != 0,
                     .groups = groups},
                    result);
  });
}

// A run is on one device and one stream, whatever is asked for.
error create_guard(std::int32_t /*index*/, void** result) noexcept {
  static char guard = 0;
  *result = &guard;
  return 0;
}
error create_stream_guard(void* /*stream*/, std::int32_t index, void** result) noexcept {
  return create_guard(index, result);
}
error set_guard(void* /*guard*/, std::int32_t /*index*/) noexcept {
  return 0;
}
error delete_guard(void* /*guard*/) noexcept {
  return 0;
}
error get_current_stream(std::int32_t /*index*/, void** result) noexcept {
  *result = run_of_thread == nullptr ? nullptr : run_of_thread->stream();
  return 0;
}

bool grad_mode_is_enabled() noexcept {
  return false;
}
void grad_mode_set_enabled(bool /*enabled*/) noexcept {}
std::size_t element_size(std::int32_t type) noexcept {
  return size_of(torch_type{type});
}
/// The package catches it.
void check(bool holds, const char* /*function*/, const char* /*file*/, std::uint32_t /*line*/, const char* message) {
  if (!holds) {
    throw std::runtime_error(message == nullptr ? "" : message);
  }
}
void warn(const char* /*function*/, const char* /*file*/, std::uint32_t /*line*/, const char* /*message*/) noexcept {}

}  // namespace aoti

struct named_function {
  std::string_view name;  ///< without "aoti_torch_"
  const void* address;
};

template <class Function>
const void* address_of(Function* function) noexcept {
  return reinterpret_cast<const void*>(function);
}

template <torch_type Type>
const void* number_of() noexcept {
  return address_of(&aoti::number<static_cast<std::int32_t>(Type)>);
}

std::span<const named_function> all_functions() noexcept {
  static const named_function all[] = {{"device_type_cpu", address_of(&aoti::number<torch_cpu>)},
                                       {"device_type_cuda", address_of(&aoti::number<torch_cuda>)},
                                       {"dtype_uint8", number_of<torch_type::u8>()},
                                       {"dtype_int8", number_of<torch_type::i8>()},
                                       {"dtype_int16", number_of<torch_type::i16>()},
                                       {"dtype_uint16", number_of<torch_type::u16>()},
                                       {"dtype_int32", number_of<torch_type::i32>()},
                                       {"dtype_int64", number_of<torch_type::i64>()},
                                       {"dtype_float16", number_of<torch_type::f16>()},
                                       {"dtype_bfloat16", number_of<torch_type::bf16>()},
                                       {"dtype_float32", number_of<torch_type::f32>()},
                                       {"dtype_float64", number_of<torch_type::f64>()},
                                       {"dtype_complex64", number_of<torch_type::cf32>()},
                                       {"dtype_bool", number_of<torch_type::boolean>()},
                                       {"dtype_element_size", address_of(&aoti::element_size)},
                                       {"layout_strided", address_of(&aoti::number<0>)},
                                       {"memory_format_contiguous_format", address_of(&aoti::number<0>)},
                                       {"memory_format_preserve_format", address_of(&aoti::number<1>)},
                                       {"grad_mode_is_enabled", address_of(&aoti::grad_mode_is_enabled)},
                                       {"grad_mode_set_enabled", address_of(&aoti::grad_mode_set_enabled)},
                                       {"empty_strided", address_of(&aoti::empty_strided)},
                                       {"create_tensor_from_blob", address_of(&aoti::tensor_from_blob)},
                                       {"create_tensor_from_blob_v2", address_of(&aoti::tensor_from_blob_v2)},
                                       {"delete_tensor_object", address_of(&aoti::delete_tensor_object)},
                                       {"new_tensor_handle", address_of(&aoti::new_tensor_handle)},
                                       {"_reinterpret_tensor", address_of(&aoti::reinterpret_tensor)},
                                       {"_alloc_from_pool", address_of(&aoti::alloc_from_pool)},
                                       {"as_strided", address_of(&aoti::as_strided)},
                                       {"get_data_ptr", address_of(&aoti::get_data_ptr)},
                                       {"get_storage_size", address_of(&aoti::get_storage_size)},
                                       {"get_storage_numel", address_of(&aoti::get_storage_numel)},
                                       {"get_storage_offset", address_of(&aoti::get_storage_offset)},
                                       {"get_dim", address_of(&aoti::get_dim)},
                                       {"get_numel", address_of(&aoti::get_numel)},
                                       {"get_sizes", address_of(&aoti::get_sizes)},
                                       {"get_size", address_of(&aoti::get_size)},
                                       {"get_strides", address_of(&aoti::get_strides)},
                                       {"get_stride", address_of(&aoti::get_stride)},
                                       {"get_dtype", address_of(&aoti::get_dtype)},
                                       {"get_device_type", address_of(&aoti::get_device_type)},
                                       {"get_device_index", address_of(&aoti::get_device_index)},
                                       {"get_current_device_index", address_of(&aoti::get_current_device_index)},
                                       {"get_layout", address_of(&aoti::get_layout)},
                                       {"is_contiguous", address_of(&aoti::is_contiguous)},
                                       {"is_defined", address_of(&aoti::is_defined)},
                                       {"copy_", address_of(&aoti::copy)},
                                       {"tensor_copy_", address_of(&aoti::tensor_copy)},
                                       {"clone", address_of(&aoti::clone)},
                                       {"clone_preserve_strides", address_of(&aoti::clone_preserve_strides)},
                                       {"zero_", address_of(&aoti::zero)},
                                       {"create_cuda_guard", address_of(&aoti::create_guard)},
                                       {"cuda_guard_set_index", address_of(&aoti::set_guard)},
                                       {"delete_cuda_guard", address_of(&aoti::delete_guard)},
                                       {"create_cuda_stream_guard", address_of(&aoti::create_stream_guard)},
                                       {"delete_cuda_stream_guard", address_of(&aoti::delete_guard)},
                                       {"get_current_cuda_stream", address_of(&aoti::get_current_stream)},
                                       {"check", address_of(&aoti::check)},
                                       {"warn", address_of(&aoti::warn)}};
  return all;
}

/// Those that a package calls by the name of its device.
std::span<const named_function> device_functions() noexcept {
  static const named_function all[] = {
      {"addmm_out", address_of(&aoti::addmm_out)},     {"mm_out", address_of(&aoti::mm_out)},
      {"baddbmm_out", address_of(&aoti::baddbmm_out)}, {"bmm_out", address_of(&aoti::bmm_out)},
      {"convolution", address_of(&aoti::convolution)}, {"fill__Scalar", address_of(&aoti::fill_scalar)}};
  return all;
}

const void* find_in(std::span<const named_function> all, std::string_view name) noexcept {
  const auto found =
      std::find_if(all.begin(), all.end(), [name](const named_function& each) { return each.name == name; });
  return found == all.end() ? nullptr : found->address;
}

#if defined(__x86_64__)
/// A function of SLEEF, which vectorized loops of packages call ("Sleef_expf16_u10"), as that of glibc's libmvec
/// ("_ZGVeN16v_expf"): arguments and result are in vector registers in both. Within 4 units of the last place.
const void* vector_function(std::string_view name) noexcept {
  constexpr std::string_view prefix = "Sleef_";
  if (!name.starts_with(prefix)) {
    return nullptr;
  }
  const std::size_t end = name.rfind('_');  // the accuracy follows
  if (end < prefix.size()) {
    return nullptr;
  }
  name = name.substr(prefix.size(), end - prefix.size());
  const std::size_t letters = name.find_last_not_of("0123456789");
  if (letters == std::string_view::npos || letters == 0 || letters + 1 == name.size()) {
    return nullptr;
  }
  const std::string lanes(name.substr(letters + 1));
  const char kind = name[letters];
  const std::string function(name.substr(0, letters));
  const bool wide = kind == 'f';
  const char set = lanes == (wide ? "16" : "8") ? 'e' : lanes == (wide ? "8" : "4") ? 'd' : 'b';
  if (kind != 'f' && kind != 'd') {
    return nullptr;
  }
  const bool takes_two = function == "pow" || function == "atan2" || function == "hypot";
  const std::string symbol =
      std::string("_ZGV") + set + "N" + lanes + (takes_two ? "vv_" : "v_") + function + (wide ? "f" : "");
  // A part of glibc, kept for good.
  static void* const library = ::dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : ::dlsym(library, symbol.c_str());
}
#else
const void* vector_function(std::string_view /*name*/) noexcept {
  return nullptr;
}
#endif

}  // namespace

const void* own_torch_function(std::string_view name) noexcept {
  constexpr std::string_view prefix = "aoti_torch_";
  if (!name.starts_with(prefix)) {
    return vector_function(name);
  }
  name.remove_prefix(prefix.size());
  if (const void* const found = find_in(all_functions(), name)) {
    return found;
  }
  for (const std::string_view device : {"cpu_", "cuda_"}) {
    if (name.starts_with(device)) {
      return find_in(device_functions(), name.substr(device.size()));
    }
  }
  return nullptr;
}

}  // namespace penstock
