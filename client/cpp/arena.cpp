#include "client/cpp/arena.hpp"

#include <functional>
#include <limits>
#include <new>
#include <stdexcept>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/cpp/last_error.hpp"

namespace penstock::link {
namespace {

void check(const file_descriptor& memory, std::uint64_t bytes) {
  constexpr int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = ::fcntl(memory.number(), F_GET_SEALS);
  if (seals < 0) {
    throw_last_error("the seals of the shared memory");
  }
  struct stat found {};
  if (::fstat(memory.number(), &found) != 0) {
    throw_last_error("the size of the shared memory");
  }
  if ((seals & wanted) != wanted || bytes == 0 || bytes > std::numeric_limits<std::ptrdiff_t>::max() ||
      static_cast<std::uint64_t>(found.st_size) < bytes) {
    throw std::runtime_error("the shared memory is not sealed, or not of its size");
  }
}

}  // namespace

std::shared_ptr<arena> arena::map(const file_descriptor& memory, std::uint32_t number, std::uint64_t bytes) {
  check(memory, bytes);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.number(), 0);
  if (at == MAP_FAILED) {
    throw_last_error("mapping the shared memory");
  }
  std::unique_ptr<arena> made;
  try {
    made.reset(new arena{{static_cast<std::byte*>(at), bytes}, number});
  } catch (const std::bad_alloc&) {
    ::munmap(at, bytes);
    throw;
  }
  return made;
}

arena::~arena() {
  ::munmap(whole_.data(), whole_.size());
}

std::uint64_t arena::used_bytes() const {
  const std::lock_guard lock{mutex_};
  return room_.used_bytes();
}

arena_block arena::take(std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  const auto offset = ended_ ? std::nullopt : room_.take(bytes);
  return offset ? arena_block{shared_from_this(), *offset} : arena_block{};
}

bool arena::holds(std::span<const std::byte> bytes) const noexcept {
  const std::less<const std::byte*> before;
  return !before(bytes.data(), whole_.data()) && before(bytes.data(), whole_.data() + whole_.size());
}

arena_block arena::block_of(std::span<const std::byte> bytes) {
  if (!holds(bytes)) {
    return {};
  }
  const std::lock_guard lock{mutex_};
  const auto offset = room_.join(static_cast<std::uint64_t>(bytes.data() - whole_.data()), bytes.size());
  return offset ? arena_block{shared_from_this(), *offset} : arena_block{};
}

void arena::end() noexcept {
  const std::lock_guard lock{mutex_};
  ended_ = true;
}

void arena::leave(std::uint64_t offset) noexcept {
  const std::lock_guard lock{mutex_};
  room_.leave(offset);
}

}  // namespace penstock::link
