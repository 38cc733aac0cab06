#pragma once

namespace penstock {

/// Outcome of a device operation: success, or the name of an error.
///
/// The name has static storage (`"cudaErrorIllegalAddress"`, `"CUFFT_EXEC_FAILED"`), so that a fault can be copied into
/// a completion and a reply without allocation.
struct [[nodiscard]] fault {
  const char* name = nullptr;

  explicit operator bool() const noexcept { return name != nullptr; }
};

}  // namespace penstock
