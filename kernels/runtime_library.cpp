#include "kernels/runtime_library.hpp"

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include <dlfcn.h>

namespace penstock {
namespace {

std::vector<std::string> candidates(const runtime_library_search& search) {
  if (const char* const chosen = std::getenv(search.variable); chosen != nullptr && *chosen != '\0') {
    return {chosen};
  }
  std::vector<std::string> folders{""};
  if (search.with_toolkit) {
    if (const char* const toolkit = std::getenv("CUDA_PATH"); toolkit != nullptr && *toolkit != '\0') {
      folders.push_back(std::string(toolkit) + "/lib64/");
      folders.push_back(std::string(toolkit) + "/targets/x86_64-linux/lib/");
    }
    folders.emplace_back("/usr/local/cuda/lib64/");
    folders.emplace_back("/usr/local/cuda/targets/x86_64-linux/lib/");
  }
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    for (const char* const name : search.names) {
      paths.push_back(folder + name);
    }
  }
  return paths;
}

}  // namespace

runtime_library::runtime_library(const runtime_library_search& search) : kind_(search.kind), hint_(search.hint) {
  std::string failure;
  for (std::string& candidate : candidates(search)) {
    handle_ = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle_ != nullptr) {
      path_ = std::move(candidate);
      return;
    }
    const char* const reason = ::dlerror();
    if (failure.empty() && reason != nullptr) {
      failure = reason;
    }
  }
  throw std::runtime_error(std::string(search.need) + ", which could not be loaded (" + failure + "): " + search.hint);
}

void* runtime_library::address_of(const char* name) const {
  void* const address = ::dlsym(handle_, name);
  if (address == nullptr) {
    throw std::runtime_error(path_ + " has no " + name + ", so it is not " + kind_ +
                             " that Penstock can use: " + hint_);
  }
  return address;
}

}  // namespace penstock
