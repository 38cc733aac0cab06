#include "tests/proto/guarded_bytes.hpp"

#include <algorithm>
#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

namespace penstock::wire::testing {

guarded_bytes::guarded_bytes(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t readable = (bytes.size() + page - 1) / page * page;
  mapped_bytes_ = readable + page;
  void* const memory = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error("mmap failed");
  }
  mapped_ = static_cast<std::byte*>(memory);
  if (mprotect(mapped_ + readable, page, PROT_NONE) != 0) {
    munmap(mapped_, mapped_bytes_);
    throw std::runtime_error("mprotect failed");
  }
  std::byte* const first = mapped_ + readable - bytes.size();
  std::copy(bytes.begin(), bytes.end(), first);
  view_ = {first, bytes.size()};
}

guarded_bytes::~guarded_bytes() {
  munmap(mapped_, mapped_bytes_);
}

}  // namespace penstock::wire::testing
