#include "kernels/openblas.hpp"

#include <cstdlib>
#include <stdexcept>

#include <dlfcn.h>
#include <sched.h>

namespace penstock {
namespace {

constexpr const char* installation_hint =
    "install OpenBLAS (Debian's package libopenblas0) or set PENSTOCK_OPENBLAS to the path of libopenblas.so.0";

/// While it lives, this thread may run on one processor. OpenBLAS starts a thread for each processor that the thread
/// may use which opens it.
class one_processor {
 public:
  one_processor() noexcept : changed_(::sched_getaffinity(0, sizeof before_, &before_) == 0) {
    if (!changed_) {
      return;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &before_)) {
        CPU_SET(processor, &one);
        break;
      }
    }
    changed_ = ::sched_setaffinity(0, sizeof one, &one) == 0;
  }
  one_processor(const one_processor&) = delete;
  one_processor& operator=(const one_processor&) = delete;
  ~one_processor() {
    if (changed_) {
      ::sched_setaffinity(0, sizeof before_, &before_);
    }
  }

 private:
  cpu_set_t before_{};
  bool changed_;
};

template <class Function>
void resolve(void* library, const std::string& path, const char* symbol, Function& function) {
  void* const address = ::dlsym(library, symbol);
  if (address == nullptr) {
    throw std::runtime_error(path + " has no " + symbol +
                             ", so it is not an OpenBLAS that Penstock can use: " + installation_hint);
  }
  function = reinterpret_cast<Function>(address);
}

}  // namespace

std::shared_ptr<const openblas_library> openblas_library::load() {
  const char* const chosen = std::getenv("PENSTOCK_OPENBLAS");
  const std::string path = chosen != nullptr && *chosen != '\0' ? chosen : "libopenblas.so.0";
  void* library = nullptr;
  {
    const one_processor in_sight;
    library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    throw std::runtime_error(std::string("a matrix product on the host needs OpenBLAS, which could not be loaded (") +
                             (reason == nullptr ? "no reason given" : reason) + "): " + installation_hint);
  }
  auto found = std::make_shared<openblas_library>();
  resolve(library, path, "cblas_sgemm", found->sgemm);
  resolve(library, path, "cblas_dgemm", found->dgemm);
  resolve(library, path, "cblas_sgemv", found->sgemv);
  void (*set_threads)(int) = nullptr;
  const char* (*get_config)() = nullptr;
  resolve(library, path, "openblas_set_num_threads", set_threads);
  resolve(library, path, "openblas_get_config", get_config);
  set_threads(1);
  found->version = get_config();
  return found;
}

}  // namespace penstock
