#include "kernels/openblas.hpp"

#include <sched.h>

#include "kernels/runtime_library.hpp"

namespace penstock {
namespace {

constexpr const char* installation_hint =
    "install OpenBLAS (Debian's package libopenblas0) or set PENSTOCK_OPENBLAS to the path of libopenblas.so.0";
constexpr const char* library_names[] = {"libopenblas.so.0"};

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

}  // namespace

std::shared_ptr<const openblas_library> openblas_library::load() {
  const runtime_library library = [] {
    const one_processor in_sight;
    return runtime_library({.need = "a matrix product on the host needs OpenBLAS",
                            .kind = "an OpenBLAS",
                            .variable = "PENSTOCK_OPENBLAS",
                            .names = library_names,
                            .hint = installation_hint});
  }();
  auto found = std::make_shared<openblas_library>();
  library.find("cblas_sgemm", found->sgemm);
  library.find("cblas_dgemm", found->dgemm);
  library.find("cblas_sgemv", found->sgemv);
  void (*set_threads)(int) = nullptr;
  const char* (*get_config)() = nullptr;
  library.find("openblas_set_num_threads", set_threads);
  library.find("openblas_get_config", get_config);
  set_threads(1);
  found->version = get_config();
  return found;
}

}  // namespace penstock
