#pragma once

#include <cstddef>

namespace penstock {

/// Zeroed memory, aligned to 256 bytes; from 2 MiB up aligned to, and where the kernel agrees made of, huge pages.
/// Every page is there when it returns. Throws device_error, also for more than the machine has: a kernel that
/// overcommits would promise it and end the process later. Give it back with free_host_memory.
[[nodiscard]] std::byte* allocate_host_memory(std::size_t bytes);
void free_host_memory(std::byte* memory) noexcept;

/// The machine's physical memory.
[[nodiscard]] std::size_t host_memory_bytes() noexcept;

}  // namespace penstock
