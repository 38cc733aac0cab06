#pragma once

namespace penstock {

/// The outcome of something that a device did: none, or an error's name.
///
/// The name has static storage (`"cudaErrorIllegalAddress"`, `"CUFFT_EXEC_FAILED"`), so a fault can be copied into a
/// completion and into a reply without an allocation.
struct [[nodiscard]] fault {
  const char* name = nullptr;

  explicit operator bool() const noexcept { return name != nullptr; }
};

}  // namespace penstock
