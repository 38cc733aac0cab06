#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <penstock/request_error.hpp>

#include "proto/status.hpp"

namespace penstock::link {

/// What the client itself says of a request: its step is "client".
[[nodiscard]] inline request_error local_error(wire::status code, std::string reason) {
  return request_error{static_cast<std::uint16_t>(code), {std::move(reason), "client", {}, {}}};
}

}  // namespace penstock::link
