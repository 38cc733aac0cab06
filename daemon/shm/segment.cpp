#include "daemon/shm/segment.hpp"

#include <cerrno>
#include <csignal>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // of Linux 6.3, for older headers
#endif

namespace penstock {
namespace {

[[noreturn]] void fail(const char* failure) {
  throw std::system_error(errno, std::generic_category(), failure);
}

// Nobody runs it, and a kernel with vm.memfd_noexec = 2 gives no other. One before 6.3 does not know the flag.
file_descriptor memory_file() noexcept {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int made = ::memfd_create("penstock", flags | MFD_NOEXEC_SEAL);
  return file_descriptor{made < 0 && errno == EINVAL ? ::memfd_create("penstock", flags) : made};
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
  if (!descriptor_) {
    fail("cannot make memory to share");
  }
  // Taken now: a page that could not be had later would end the process that touches it.
  if (const int error = ::posix_fallocate(descriptor(), 0, static_cast<off_t>(bytes_)); error != 0) {
    errno = error;
    fail("cannot get memory to share");
  }
  // Against holes there is no seal under which the other process could still map it to write. A hole reads as zeros,
  // and its page comes back when it is touched.
  if (::fcntl(descriptor(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail("cannot seal memory to share");
  }
  void* const mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor(), 0);
  if (mapped == MAP_FAILED) {
    fail("cannot map memory to share");
  }
  memory_ = static_cast<std::byte*>(mapped);
}

sealed_memory::~sealed_memory() {
  ::munmap(memory_, bytes_);
}

// Whoever opens the file while there is a lease makes the kernel send its holder a signal: SIGIO, which ends a process,
// unless the descriptor has another. This one does nothing where nobody handles it.
memory_watch::memory_watch(int file) noexcept : own_(open_again(file)) {
  if (own_) {
    ::fcntl(own_.number(), F_SETSIG, SIGURG);
  }
}

// The kernel grants a write lease only if nobody else has the file open; a mapping keeps it open.
bool memory_watch::sees_anybody() const noexcept {
  if (!own_) {
    return false;
  }
  if (::fcntl(own_.number(), F_SETLEASE, F_WRLCK) != 0) {
    return errno == EAGAIN;
  }
  ::fcntl(own_.number(), F_SETLEASE, F_UNLCK);
  return false;
}

// The kernel does not count the first descriptor, which memfd_create made, among those that have the file open.
file_descriptor memory_watch::open_again(int file) noexcept {
  return file_descriptor{::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC)};
}

client_arena::client_arena(std::uint32_t number, std::size_t bytes, device& device, arena_owner& owner,
                           arena_memory memory)
    : number_(number), device_(device), owner_(owner) {
  if (memory == arena_memory::device) {
    exported_ = device_.allocate_exported(bytes);
    data_ = exported_->data();
    bytes_ = exported_->bytes();
    return;
  }
  sealed_.emplace(bytes);
  data_ = sealed_->data();
  bytes_ = sealed_->bytes();
  device_.pin(data_, bytes_);
}

client_arena::~client_arena() {
  if (sealed_) {
    device_.unpin(data_);
  }
}

void client_arena::drop() noexcept {
  if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    owner_.take_back(*this);
  }
}

}  // namespace penstock
