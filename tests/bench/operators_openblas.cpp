#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "kernels/matmul.hpp"
#include "tests/bench/operators.hpp"

namespace penstock::bench {
namespace {

using numbers = std::vector<float>;
/// cblas_sgemm, of any BLAS with 32-bit integers.
using sgemm_function = void (*)(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float* a,
                                int lda, const float* b, int ldb, float beta, float* c, int ldc);

sgemm_function load_sgemm() {
  const char* const chosen = std::getenv("PENSTOCK_OPENBLAS");
  void* const library =
      ::dlopen(chosen != nullptr && *chosen != '\0' ? chosen : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(::dlerror());
  }
  const auto set_threads = reinterpret_cast<void (*)(int)>(::dlsym(library, "openblas_set_num_threads"));
  const auto sgemm = reinterpret_cast<sgemm_function>(::dlsym(library, "cblas_sgemm"));
  if (set_threads == nullptr || sgemm == nullptr) {
    throw std::runtime_error("the library has no cblas_sgemm, or not OpenBLAS's threads");
  }
  set_threads(1);
  return sgemm;
}

class bare_product final : public operation {
 public:
  bare_product(const matmul_settings& settings, std::int64_t frames)
      : sgemm_(load_sgemm()),
        rows_(static_cast<int>(settings.max_rows(frames))),
        columns_(static_cast<int>(settings.columns)),
        inner_(static_cast<int>(settings.inner)),
        weights_(static_cast<std::size_t>(settings.weights->count())) {
    settings.weights->read(0, weights_);
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    constexpr int row_major = 101;
    constexpr int plain = 111;
    sgemm_(row_major, plain, plain, rows_, columns_, inner_, 1.0F, static_cast<const float*>(arguments.inputs[0]),
           inner_, weights_.data(), columns_, 0.0F, static_cast<float*>(arguments.output), columns_);
    return {};
  }

 private:
  sgemm_function sgemm_;
  int rows_;
  int columns_;
  int inner_;
  numbers weights_;
};

}  // namespace

library_call_list openblas_calls(const operator_case& subject) {
  library_call_list found;
  if (subject.op != "matmul") {
    return found;
  }
  try {
    const matmul_settings settings = parse_matmul(subject.settings, subject.inputs.front());
    const int rows = static_cast<int>(settings.max_rows(subject.frames));
    found.calls.push_back({.key = "of_openblas",
                           .call = fmt::format("cblas_sgemm of {} rows", rows),
                           .work = std::make_unique<bare_product>(settings, subject.frames),
                           .output_bytes = subject.output_bytes(),
                           .difference = difference_of});
  } catch (const std::runtime_error& error) {
    found.missing.push_back(std::string("OpenBLAS: ") + error.what());
  }
  return found;
}

}  // namespace penstock::bench
