#pragma once

#include <string_view>

#include "kernels/operation.hpp"

namespace penstock {

/// The CUDA implementation of the operator of that name, nullptr when there is none. Linked into the CUDA module only.
[[nodiscard]] make_operation find_cuda_operation(std::string_view name) noexcept;

}  // namespace penstock
