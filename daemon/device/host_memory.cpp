#include "daemon/device/host_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "daemon/device/device.hpp"

namespace penstock {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t huge_page = std::size_t{2} << 20U;

}  // namespace

std::size_t host_memory_bytes() noexcept {
  return static_cast<std::size_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
         static_cast<std::size_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
}

std::byte* allocate_host_memory(std::size_t bytes) {
  const std::size_t aligned_to = bytes >= huge_page ? huge_page : alignment;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + aligned_to - 1) / aligned_to * aligned_to;
  void* const memory = bytes <= host_memory_bytes() ? std::aligned_alloc(aligned_to, rounded) : nullptr;
  if (memory == nullptr) {
    throw device_error("no memory for a buffer of " + std::to_string(bytes) +
                       " bytes on the host: configure fewer slots or smaller batches");
  }
  if (aligned_to == huge_page) {
    madvise(memory, rounded, MADV_HUGEPAGE);  // advice: ordinary pages serve too
  }
  std::memset(memory, 0, rounded);
  return static_cast<std::byte*>(memory);
}

void free_host_memory(std::byte* memory) noexcept {
  std::free(memory);
}

}  // namespace penstock
