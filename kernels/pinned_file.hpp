#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/number_file.hpp"

namespace penstock {

/// The numbers of a file in pinned host memory, from which copies to every GPU run at full speed. Immutable.
///
/// The file's own pages are pinned where that is possible, so that weights larger than half of the machine's memory can
/// be used; else they are copied.
class pinned_file {
 public:
  /// Blocks while the pages are read and pinned. Throws std::runtime_error.
  explicit pinned_file(const number_file& file);
  pinned_file(const pinned_file&) = delete;
  pinned_file& operator=(const pinned_file&) = delete;
  ~pinned_file();

  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// "the file's pages are pinned", "copied to pinned memory": for people.
  [[nodiscard]] const char* how() const noexcept;

 private:
  enum class kind { mapped_read_only, mapped, copied };

  [[nodiscard]] bool pin(std::shared_ptr<const std::byte> mapped, unsigned flags, kind made);
  void copy(const std::byte* from);

  std::size_t bytes_;
  kind kind_ = kind::copied;
  std::shared_ptr<const std::byte> mapped_;
  const std::byte* data_ = nullptr;
};

}  // namespace penstock
