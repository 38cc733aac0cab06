#pragma once

#include <cstddef>

#include "daemon/device/cuda/cuda_context.hpp"

namespace penstock {

/// Zeroed memory of the device, aligned to 256 bytes. Throws device_error. Blocks; start-up only.
[[nodiscard]] std::byte* allocate_cuda_memory(cuda_context& context, std::size_t bytes);
void free_cuda_memory(cuda_context& context, std::byte* memory) noexcept;

/// Zeroed, page-locked host memory that every device copies from and to at full speed, aligned to 256 bytes.
/// Never pageable memory instead. Throws device_error. Blocks; start-up only.
[[nodiscard]] std::byte* allocate_cuda_pinned(cuda_context& context, std::size_t bytes);
void free_cuda_pinned(cuda_context& context, std::byte* memory) noexcept;

/// Page-locks memory of somebody else's, for every device. Throws device_error. Blocks.
void pin_for_cuda(cuda_context& context, std::byte* memory, std::size_t bytes);
void unpin_for_cuda(cuda_context& context, std::byte* memory) noexcept;

}  // namespace penstock
