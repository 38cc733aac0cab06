#pragma once

#include <memory>
#include <stdexcept>

#include "daemon/device/device.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// Makes an operation and turns what a library under it reports into device_error; parameter_error keeps its field.
[[nodiscard]] inline std::unique_ptr<operation> make_for_device(make_operation make, const operation_request& request) {
  try {
    return make(request);
  } catch (const parameter_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw device_error(error.what());
  }
}

}  // namespace penstock
