#include "tests/bench/operators/vendor_library.hpp"

#include <cstdlib>
#include <string>
#include <vector>

#include <dlfcn.h>

namespace penstock::bench {
namespace {

std::string setting(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::vector<std::string> candidates(const std::string& chosen, std::initializer_list<const char*> names) {
  if (!chosen.empty()) {
    return {chosen};
  }
  std::vector<std::string> paths(names.begin(), names.end());
  for (const std::string& toolkit : {setting("CUDA_PATH"), std::string("/usr/local/cuda")}) {
    for (const char* const folder : {"/lib64/", "/targets/x86_64-linux/lib/"}) {
      for (const char* const name : names) {
        if (!toolkit.empty()) {
          paths.push_back(toolkit + folder + name);
        }
      }
    }
  }
  return paths;
}

}  // namespace

vendor_library::vendor_library(const char* chosen_by, std::initializer_list<const char*> names) {
  std::string failure;
  for (const std::string& path : candidates(setting(chosen_by), names)) {
    // Not unloaded: it registers kernels with the driver, and to take these out at the process's end is not safe.
    library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library_ != nullptr) {
      return;
    }
    const char* const reason = ::dlerror();
    failure = failure.empty() && reason != nullptr ? reason : failure;
  }
  throw no_vendor_library("could not load it (" + failure + "); " + chosen_by + " may name the file");
}

void* vendor_library::address_of(const char* symbol) const {
  void* const address = ::dlsym(library_, symbol);
  if (address == nullptr) {
    throw std::runtime_error(std::string("the library has no ") + symbol);
  }
  return address;
}

}  // namespace penstock::bench
