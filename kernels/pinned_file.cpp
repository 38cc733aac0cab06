#include "kernels/pinned_file.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

namespace penstock {

// A mapping of the file alone: a private one would be copied when it is pinned. A driver that can't pin memory that is
// mapped read-only gets a writable mapping, where the daemon may write to the file; nobody does.
pinned_file::pinned_file(const number_file& file)
    : bytes_(static_cast<std::size_t>(file.count()) * size_of(file.type())) {
  int device = 0;
  int read_only = 0;
  std::shared_ptr<const std::byte> mapped = file.map();
  const bool pins_read_only =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, device) == cudaSuccess &&
      read_only != 0;
  if (pins_read_only && pin(mapped, cudaHostRegisterPortable | cudaHostRegisterReadOnly, kind::mapped_read_only)) {
    return;
  }
  if (pin(file.map_writable(), cudaHostRegisterPortable, kind::mapped)) {
    return;
  }
  copy(mapped.get());
}

pinned_file::~pinned_file() {
  if (kind_ == kind::copied) {
    cudaFreeHost(const_cast<std::byte*>(data_));
  } else {
    cudaHostUnregister(const_cast<std::byte*>(data_));
  }
}

const char* pinned_file::how() const noexcept {
  switch (kind_) {
    case kind::mapped_read_only:
      return "the file's pages are pinned, mapped read-only";
    case kind::mapped:
      return "the file's pages are pinned";
    case kind::copied:
      break;
  }
  return "copied to pinned memory";
}

bool pinned_file::pin(std::shared_ptr<const std::byte> mapped, unsigned flags, kind made) {
  if (mapped == nullptr) {
    return false;
  }
  if (cudaHostRegister(const_cast<std::byte*>(mapped.get()), bytes_, flags) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  mapped_ = std::move(mapped);
  data_ = mapped_.get();
  kind_ = made;
  return true;
}

void pinned_file::copy(const std::byte* from) {
  void* memory = nullptr;
  if (const cudaError_t failed = cudaHostAlloc(&memory, bytes_, cudaHostAllocPortable); failed != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw std::runtime_error("weights of " + std::to_string(bytes_) +
                             " bytes can neither be pinned where they are nor copied to pinned memory (" +
                             cudaGetErrorName(failed) +
                             "): keep them in a file that the daemon may write to, on tmpfs such as /dev/shm");
  }
  auto* const to = static_cast<std::byte*>(memory);
  data_ = to;
  constexpr std::size_t pieces = 8;
  const std::size_t piece = bytes_ / pieces + 1;
  std::vector<std::thread> threads;
  for (std::size_t begin = 0; begin < bytes_; begin += piece) {
    threads.emplace_back(
        [=, count = std::min(piece, bytes_ - begin)] { std::memcpy(to + begin, from + begin, count); });
  }
  for (std::thread& each : threads) {
    each.join();
  }
}

}  // namespace penstock
