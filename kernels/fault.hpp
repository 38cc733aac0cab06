#pragma once

#include <string>

namespace penstock {

/// Outcome of a device operation: success, or the name of an error.
///
/// The name has static storage (`"cudaErrorIllegalAddress"`, `"CUFFT_EXEC_FAILED"`), so that a fault can be copied into
/// a completion and a reply without allocation.
struct [[nodiscard]] fault {
  const char* name = nullptr;

  explicit operator bool() const noexcept { return name != nullptr; }
};

/// For people: what happened and what to do, for names that are Penstock's own; "" for those of CUDA and its libraries,
/// which others explain. Part of a sentence.
[[nodiscard]] std::string explanation_of(fault met);
/// The explanation with the name behind it, in brackets, or the name alone.
[[nodiscard]] std::string text_of(fault met);
/// True of what Penstock's own functions for models lack, and those of PyTorch may have.
[[nodiscard]] bool is_lack_of_own_functions(fault met) noexcept;

}  // namespace penstock
