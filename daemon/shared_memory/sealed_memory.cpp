#include "daemon/shared_memory/sealed_memory.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // of Linux 6.3, for older headers
#endif

namespace penstock {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Nobody runs it, and a kernel with vm.memfd_noexec = 2 gives no other. One before 6.3 does not know the flag.
int memory_file() noexcept {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int made = ::memfd_create("penstock", flags | MFD_NOEXEC_SEAL);
  return made < 0 && errno == EINVAL ? ::memfd_create("penstock", flags) : made;
}

std::size_t machine_bytes() noexcept {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t whole_pages(std::size_t bytes) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

sealed_memory::sealed_memory(std::size_t bytes) : bytes_(whole_pages(bytes)) {
  // The kernel would try to get it, and end other processes to.
  if (bytes_ > machine_bytes()) {
    errno = ENOMEM;
    fail("cannot get memory to share");
  }
  descriptor_ = memory_file();
  if (descriptor_ < 0) {
    fail("cannot make memory to share");
  }
  try {
    // Taken now: a page that could not be had later would end the process that touches it.
    if (const int error = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes_)); error != 0) {
      errno = error;
      fail("cannot get memory to share");
    }
    // Against holes there is no seal under which the other process could still map it to write. A hole reads as zeros,
    // and its page comes back when it is touched.
    if (::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
      fail("cannot seal memory to share");
    }
    void* const mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_, 0);
    if (mapped == MAP_FAILED) {
      fail("cannot map memory to share");
    }
    memory_ = static_cast<std::byte*>(mapped);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

sealed_memory::~sealed_memory() {
  ::munmap(memory_, bytes_);
  close_descriptor();
}

void sealed_memory::close_descriptor() noexcept {
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
}

}  // namespace penstock
