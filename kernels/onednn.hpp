#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/convolution.hpp"
#include "kernels/fault.hpp"

namespace penstock {

/// oneDNN 2 (libdnnl), loaded at run time, so that the daemon starts on machines without it. onednn.cpp holds the
/// functions that Penstock calls (https://oneapi-src.github.io/oneDNN/v2.6/).
///
/// Immutable once loaded. The library stays loaded until the process ends.
struct onednn_library;

/// Loads the file that PENSTOCK_ONEDNN names, if it is set; else libdnnl.so.2 of the default library path. Throws
/// std::runtime_error, which says what is missing and what to install.
[[nodiscard]] std::shared_ptr<const onednn_library> load_onednn();

/// One convolution in f32 with its bias and activation, by oneDNN on the thread that calls it: it starts no others.
/// Tensors are plain, as convolution_shape says; where oneDNN is faster in a layout of its own, `run` changes the
/// layout in the workspace. The constructor measures.
///
/// Thread: several may call `run` at once, each with a workspace of its own.
class onednn_convolution {
 public:
  /// Packs `weights` and `bias`, which it does not need after that. With nullptr for `weights` each run gets them, and
  /// packs them in its workspace. `like`, if there is one, got the same weights: both share what is packed alike.
  ///
  /// Takes oneDNN's fastest implementation and layout. With a `longest` above 1 it takes another one, with a clearly
  /// smaller error, that needs up to so many times the fastest's time: orders of summing differ. Long sums may then be
  /// taken in parts. Only where weights are packed.
  ///
  /// Throws std::runtime_error with oneDNN's error.
  onednn_convolution(std::shared_ptr<const onednn_library> library, const convolution_shape& shape,
                     const float* weights, const float* bias, double longest, const onednn_convolution* like = nullptr);
  onednn_convolution(onednn_convolution&& other) noexcept;
  onednn_convolution(const onednn_convolution&) = delete;
  onednn_convolution& operator=(const onednn_convolution&) = delete;
  onednn_convolution& operator=(onednn_convolution&&) = delete;
  ~onednn_convolution();

  [[nodiscard]] const convolution_shape& shape() const noexcept;
  /// Bytes of the workspace of `run`.
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// oneDNN's name of the implementation, such as "jit:avx512_common".
  [[nodiscard]] const char* engine() const noexcept;

  /// `weights` and `bias` are those of the constructor if that got weights, and are then ignored. `workspace` is
  /// aligned to 64 bytes. x and y do not overlap.
  fault run(void* workspace, const float* x, const float* weights, const float* bias, float* y) const noexcept;

 private:
  class implementation;
  std::unique_ptr<implementation> implementation_;
};

}  // namespace penstock
