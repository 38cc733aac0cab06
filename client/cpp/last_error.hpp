#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace penstock::link {

/// Throws what errno says of `what`, which just failed.
[[noreturn]] inline void throw_last_error(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace penstock::link
