#include "tests/support/test_backend.hpp"

#include <cstdlib>
#include <sstream>

#include "daemon/device/backend.hpp"

namespace penstock {
namespace {

constexpr int host_threads = 2;

bool cuda_works() {
  try {
    return open_cuda_device(0) != nullptr;
  } catch (const device_error&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> test_backends() {
  std::vector<std::string> backends;
  if (const char* const listed = std::getenv("PENSTOCK_TEST_BACKENDS"); listed != nullptr && *listed != '\0') {
    std::istringstream names{listed};
    for (std::string name; std::getline(names, name, ',');) {
      backends.push_back(name);
    }
    return backends;
  }
  backends.emplace_back("host");
  if (cuda_works()) {
    backends.emplace_back("cuda");
  }
  return backends;
}

std::unique_ptr<device> open_test_backend(const std::string& backend) {
  if (backend == "host") {
    return open_host_device(host_threads);
  }
  if (backend == "cuda") {
    return open_cuda_device(0);
  }
  throw device_error("no backend '" + backend + "'; known: host, cuda");
}

}  // namespace penstock
