#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"

namespace penstock {

/// The backends to test: those that PENSTOCK_TEST_BACKENDS lists ("host,cuda"), else the host, and CUDA where it works.
[[nodiscard]] std::vector<std::string> test_backends();
/// Its first device. Throws device_error when that backend can't be opened.
[[nodiscard]] std::unique_ptr<device> open_test_backend(const std::string& backend);

}  // namespace penstock
