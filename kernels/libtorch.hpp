#pragma once

#include <memory>

#include "kernels/model.hpp"

namespace penstock {

/// The functions of a PyTorch on this machine (libtorch_cpu.so, and libtorch_cuda.so `with_cuda`), opened at run time:
/// for models that call more than own_torch_function has. Its own threads are set to 1. It stays loaded until the
/// process ends.
///
/// Loads from the folder that PENSTOCK_LIBTORCH names, such as /usr/lib/python3/dist-packages/torch/lib, if it is set;
/// else from the default library path. Throws std::runtime_error, which says what is missing and what to install.
[[nodiscard]] std::shared_ptr<const torch_provider> load_libtorch(bool with_cuda);

}  // namespace penstock
