#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/shared_object.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// The package can't be used. what() says why, without its name.
class package_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Own functions lack what a model calls. Those of a PyTorch may have it.
class own_functions_error : public package_error {
 public:
  using package_error::package_error;
};

/// A tensor of a model, as its package describes it: one frame, or one session's state.
struct model_tensor {
  std::string name;
  tensor_spec spec;
  /// Extents of a frame as the model has them, which may have none: then the spec has one of 1.
  std::vector<std::int64_t> shape;

  bool operator==(const model_tensor&) const = default;
};

/// A model compiled for one device and one number of frames.
struct model_part {
  std::string device;       ///< "cpu" or "cuda"
  std::int64_t frames = 1;  ///< its bucket
  std::shared_ptr<const library_image> library;
  std::vector<std::string> proxied{};  ///< operators that were not compiled: PyTorch would have to run them
};

/// A package of models that penstock.torch.export has made: a zip file with extra/penstock.json.
struct model_package {
  std::string torch;                  ///< the version that compiled it
  std::string cpu;                    ///< what its CPU part needs: "avx2", "avx512", … ; "" for none
  std::string cuda;                   ///< what its CUDA part is for: "sm_90"; "" without one
  std::vector<model_tensor> inputs;   ///< without the state
  std::vector<model_tensor> outputs;  ///< without the state
  std::optional<model_tensor> state;  ///< last input and last output of the model
  std::vector<model_part> parts;      ///< of each device by rising buckets
  std::string sha256;                 ///< of the file, in 64 digits

  /// Those of one device.
  [[nodiscard]] std::vector<model_part> parts_of(std::string_view device) const;
};

/// Reads a package. The files of models are copied out of `bytes`; nothing of them runs. Throws package_error.
[[nodiscard]] std::shared_ptr<const model_package> read_model_package(std::string_view bytes);

}  // namespace penstock
