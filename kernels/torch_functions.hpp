#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/convolution.hpp"
#include "kernels/fault.hpp"
#include "kernels/shared_object.hpp"

/// The functions `aoti_torch_…` that the library of an AOTInductor package calls, without PyTorch: tensors whose memory
/// is a bump allocation in the scratch of a run, products, convolutions and copies. They are the same for every device;
/// what they compute is done by a torch_device.
///
/// C API of torch 2.6 to 2.13 (torch/csrc/inductor/aoti_torch/c/shim.h). A function that fails returns 1; the package
/// then unwinds and its container returns an error. torch_run::met says what failed.
namespace penstock {

/// Maximum extents of a tensor.
inline constexpr std::size_t most_torch_extents = 8;

/// PyTorch's numbers for element types (c10/core/ScalarType.h), which its C API returns.
enum class torch_type : std::int32_t {
  u8 = 0,
  i8 = 1,
  i16 = 2,
  i32 = 3,
  i64 = 4,
  f16 = 5,
  f32 = 6,
  f64 = 7,
  cf32 = 9,
  boolean = 11,
  bf16 = 15,
  u16 = 27
};
/// Bytes of an element; 0 for a type that is not in the list.
[[nodiscard]] std::size_t size_of(torch_type type) noexcept;

/// PyTorch's numbers for devices.
inline constexpr std::int32_t torch_cpu = 0;
inline constexpr std::int32_t torch_cuda = 1;

class torch_device;

/// Memory of tensors.
struct torch_block {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t begin = 0;          ///< in the memory of its run
  std::int64_t users = 0;         ///< tensors in it
  torch_device* owner = nullptr;  ///< who allocated it; nullptr: it is of a run
};

/// What a tensor handle points to.
struct torch_tensor {
  std::byte* data = nullptr;  ///< of the storage; the first element is `offset` elements further
  std::size_t bytes = 0;      ///< of the storage
  std::int64_t extents = 0;
  std::array<std::int64_t, most_torch_extents> sizes{};
  std::array<std::int64_t, most_torch_extents> strides{};  ///< in elements
  std::int64_t offset = 0;
  torch_type type = torch_type::f32;
  std::int32_t device_type = torch_cpu;
  std::int32_t device_index = 0;
  torch_block* block = nullptr;       ///< nullptr: the memory is somebody else's, who keeps it
  bool of_run = false;                ///< this record is of a run
  bool is_constant = false;           ///< its elements are a model's own, made with it
  torch_tensor* next_free = nullptr;  ///< of a run's records

  [[nodiscard]] std::byte* first() const noexcept { return data + static_cast<std::ptrdiff_t>(size_of(type)) * offset; }
  [[nodiscard]] std::int64_t elements() const noexcept;
  /// Row-major without gaps.
  [[nodiscard]] bool is_contiguous() const noexcept;
};

/// out = beta · add + alpha · left × right, of matrices [M, K] × [K, N] or of as many pairs of them [P, M, K].
struct torch_product {
  const torch_tensor* add = nullptr;  ///< [M, N], [N], [1, N] … as its strides of zero say; nullptr for none
  const torch_tensor* left = nullptr;
  const torch_tensor* right = nullptr;
  const torch_tensor* out = nullptr;
  double alpha = 1;
  double beta = 1;
};

/// A convolution over one or two axes: input [B, C, W] or [B, C, H, W].
struct torch_convolution {
  const torch_tensor* input = nullptr;
  const torch_tensor* weight = nullptr;
  const torch_tensor* bias = nullptr;  ///< or nullptr
  const torch_tensor* out = nullptr;   ///< contiguous
  std::span<const std::int64_t> stride{};
  std::span<const std::int64_t> padding{};
  std::span<const std::int64_t> dilation{};
  std::span<const std::int64_t> output_padding{};
  bool transposed = false;
  std::int64_t groups = 1;
};

/// Of a convolution whose sizes fit. Its activation is none.
[[nodiscard]] convolution_shape shape_of(const torch_convolution& asked) noexcept;

class torch_run;

/// Memory and mathematics of a device, for one model. A model makes the same calls in each run, in the same order, and
/// `call` counts products and convolutions of a run from 0. In a run that prepares, a call may allocate, choose
/// algorithms and keep what it has made under its number; in others it only looks.
///
/// Thread: on the host several threads call at once, except in a run that prepares.
class torch_device {
 public:
  torch_device() = default;
  torch_device(const torch_device&) = delete;
  torch_device& operator=(const torch_device&) = delete;
  virtual ~torch_device() = default;

  [[nodiscard]] virtual std::int32_t type() const noexcept = 0;  ///< torch_cpu or torch_cuda
  [[nodiscard]] virtual std::int32_t index() const noexcept { return 0; }
  /// Outside of runs, and in those that prepare. nullptr: there is none.
  [[nodiscard]] virtual std::byte* allocate(std::size_t bytes) noexcept = 0;
  /// Work that was enqueued may still use it.
  virtual void release(std::byte* memory) noexcept = 0;

  virtual fault product(torch_run& run, const torch_product& asked, std::size_t call) noexcept = 0;
  virtual fault convolve(torch_run& run, const torch_convolution& asked, std::size_t call) noexcept = 0;
  /// Elements of equal type and sizes, of any strides.
  virtual fault copy(torch_run* run, const torch_tensor& to, const torch_tensor& from) noexcept = 0;
  /// Each element.
  virtual fault fill(torch_run* run, const torch_tensor& to, double value) noexcept = 0;
};

/// What the runs of a model need, as a run that prepares finds out.
struct torch_needs {
  std::size_t bytes = 0;    ///< of memory for tensors' elements
  std::size_t tensors = 0;  ///< records of tensors at a time
  std::size_t blocks = 0;
};

/// One run of a model on this thread: while it lives, tensors are made in its memory. Immovable: the functions hold its
/// address.
class torch_run {
 public:
  /// A run that prepares: memory comes from the device. It goes back at the end.
  torch_run(torch_device& device, void* stream);
  /// A run in memory as `needs` says; `elements` is the device's and aligned to 256 bytes.
  torch_run(torch_device& device, void* stream, std::span<std::byte> elements, std::span<torch_tensor> tensors,
            std::span<torch_block> blocks) noexcept;
  torch_run(const torch_run&) = delete;
  torch_run& operator=(const torch_run&) = delete;
  ~torch_run();

  [[nodiscard]] bool prepares() const noexcept { return prepares_; }
  [[nodiscard]] void* stream() const noexcept { return stream_; }
  [[nodiscard]] torch_device& device() noexcept { return device_; }
  /// The most that was in use.
  [[nodiscard]] const torch_needs& needs() const noexcept { return most_; }
  /// The first fault of a function in this run.
  [[nodiscard]] fault met() const noexcept { return met_; }
  void meet(fault failed) noexcept { met_ = met_ ? met_ : failed; }
  [[nodiscard]] std::size_t next_call() noexcept { return calls_++; }

  /// Memory of the device for one user, until it and those that joined it are gone; nullptr: there is none.
  [[nodiscard]] torch_block* allocate(std::size_t bytes) noexcept;
  /// A user less.
  void release(torch_block& block) noexcept;
  [[nodiscard]] torch_tensor* make_tensor() noexcept;
  void release(torch_tensor& tensor) noexcept;

  /// That of this thread; nullptr: none.
  [[nodiscard]] static torch_run* current() noexcept;

 private:
  torch_device& device_;
  void* const stream_;
  const bool prepares_;
  torch_run* const outer_;
  std::span<std::byte> elements_;
  std::span<torch_tensor> tensors_;
  std::span<torch_block> blocks_;
  std::vector<torch_tensor*> made_tensors_;  // of a run that prepares
  std::vector<torch_block*> made_blocks_;
  torch_needs used_;
  torch_needs most_;
  torch_tensor* free_ = nullptr;
  std::size_t calls_ = 0;
  fault met_;
};

/// Outside of runs: whose memory the tensors are in that are made on this thread, as when a model is loaded. Their
/// records are on the heap.
class torch_setting {
 public:
  explicit torch_setting(torch_device& device) noexcept;
  torch_setting(const torch_setting&) = delete;
  torch_setting& operator=(const torch_setting&) = delete;
  ~torch_setting();

 private:
  torch_device* const outer_;
};

/// Our function of this name; nullptr if there is none. Names of products and convolutions are there for the CPU and
/// for CUDA ("aoti_torch_cpu_mm_out", "aoti_torch_cuda_mm_out").
[[nodiscard]] const void* own_torch_function(std::string_view name) noexcept;

}  // namespace penstock
