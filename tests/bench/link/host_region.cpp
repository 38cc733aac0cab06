#include "tests/bench/link/host_region.hpp"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/bare_cuda.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20U;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void* mapped(int descriptor, std::size_t bytes) {
  const int kind = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, descriptor, 0);
  if (made == MAP_FAILED) {
    fail("mmap");
  }
  return made;
}

int sealed_file(std::size_t bytes) {
  const int file = ::memfd_create("penstock-bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) {
    fail("memfd_create");
  }
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int error = errno;
    ::close(file);
    errno = error;
    fail("sealing a memfd");
  }
  return file;
}

}  // namespace

host_region::host_region(host_memory kind, std::size_t bytes) : kind_(kind), bytes_(bytes) {
  switch (kind) {
    case host_memory::pinned:
      data_ = make_bare_pinned_memory(bytes).release();
      return;
    case host_memory::pageable:
      data_ = static_cast<std::byte*>(mapped(-1, bytes));
      std::memset(data_, 0, bytes);
      return;
    case host_memory::sealed:
      map_sealed();
      return;
    case host_memory::huge:
      map_huge();
      return;
  }
}

void host_region::map_sealed() {
  const int file = sealed_file(bytes_);
  try {
    data_ = static_cast<std::byte*>(mapped(file, bytes_));
  } catch (...) {
    ::close(file);
    throw;
  }
  ::close(file);
  std::memset(data_, 0, bytes_);
  register_all("cudaHostRegister of a sealed memfd");
}

// The kernel puts huge pages on borders of their size, so there is room to begin at one.
void host_region::map_huge() {
  mapping_ = mapped(-1, bytes_ + huge_page);
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + (huge_page - begin % huge_page) % huge_page;
  static_cast<void>(::madvise(data_, bytes_, MADV_HUGEPAGE));
  std::memset(data_, 0, bytes_);
  register_all("cudaHostRegister of huge pages");
}

void host_region::register_all(const char* what) {
  const auto begin = std::chrono::steady_clock::now();
  const cudaError_t registered = cudaHostRegister(data_, bytes_, cudaHostRegisterPortable | cudaHostRegisterMapped);
  register_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (registered != cudaSuccess) {
    unmap();
    require(registered, what);
  }
}

void host_region::unmap() noexcept {
  if (kind_ == host_memory::huge) {
    ::munmap(mapping_, bytes_ + huge_page);
  } else {
    ::munmap(data_, bytes_);
  }
}

host_region::~host_region() {
  if (kind_ == host_memory::pinned) {
    static_cast<void>(cudaFreeHost(data_));
    return;
  }
  if (kind_ != host_memory::pageable) {
    static_cast<void>(cudaHostUnregister(data_));
  }
  unmap();
}

}  // namespace penstock::bench
