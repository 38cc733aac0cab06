#pragma once

#include <cstddef>

namespace penstock::bench {

enum class host_memory {
  pinned,    ///< cudaHostAlloc
  pageable,  ///< ordinary
  sealed,    ///< a memfd that can't shrink or grow any more, mapped and registered by cudaHostRegister
  huge,      ///< ordinary, on huge pages where the system gives any, and registered by cudaHostRegister
};

/// Host memory of one kind, every page of it touched. Throws std::runtime_error or std::system_error.
class host_region {
 public:
  host_region(host_memory kind, std::size_t bytes);
  host_region(const host_region&) = delete;
  host_region& operator=(const host_region&) = delete;
  ~host_region();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// How long cudaHostRegister took; 0 for kinds that it has no part in.
  [[nodiscard]] double register_ms() const noexcept { return register_ms_; }

 private:
  void map_sealed();
  void map_huge();
  void register_all(const char* what);
  void unmap() noexcept;

  const host_memory kind_;
  const std::size_t bytes_;
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;  ///< of huge pages: where they lie is the data
  double register_ms_ = 0;
};

}  // namespace penstock::bench
