#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include <penstock/request_error.hpp>

#include "proto/status.hpp"

namespace penstock::link {

/// An error that the client itself raises: its step is "client".
[[nodiscard]] inline request_error local_error(wire::status code, std::string reason) {
  return request_error{static_cast<std::uint16_t>(code), {std::move(reason), "client", {}, {}}};
}

/// Throws std::system_error with errno; `operation` names the operation that failed.
[[noreturn]] inline void throw_last_error(const std::string& operation) {
  throw std::system_error(errno, std::generic_category(), operation);
}

}  // namespace penstock::link
