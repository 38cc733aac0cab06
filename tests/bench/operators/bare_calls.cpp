#include "tests/bench/operators/bare_calls.hpp"

#include <cstdio>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "kernels/cufft.hpp"
#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/operators/bare_operations.hpp"
#include "tests/bench/operators/cublas.hpp"
#include "tests/bench/operators/cublas_counterparts.hpp"
#include "tests/bench/operators/cufft_counterparts.hpp"

namespace penstock::bench {
namespace {

void move_to(std::vector<bare_counterpart>& all, std::vector<bare_counterpart> some) {
  all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
}

class cuda_calls final : public bare_calls {
 public:
  cuda_calls() {
    try {
      blas_ = std::make_shared<cublas>();
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "nothing is measured beside cuBLAS: %s\n", error.what());
    }
  }

  [[nodiscard]] std::unique_ptr<operation> copy(std::size_t bytes) const override { return make_cuda_copy(bytes); }
  [[nodiscard]] std::unique_ptr<operation> nothing() const override { return make_empty_launch(); }

  [[nodiscard]] bare_counterparts beside(const operator_case& what) const override {
    bare_counterparts found;
    try {
      move_to(found.made, cufft_counterparts(what));
    } catch (const std::runtime_error& error) {
      found.missing.push_back(std::string("cuFFT: ") + error.what());
    }
    try {
      if (blas_ != nullptr) {
        move_to(found.made, cublas_counterparts(blas_, what));
      } else if (has_cublas_counterpart(what)) {
        found.missing.emplace_back("cuBLAS was not found");
      }
    } catch (const std::runtime_error& error) {
      found.missing.push_back(std::string("cuBLAS: ") + error.what());
    }
    return found;
  }

  [[nodiscard]] nlohmann::ordered_json facts() const override {
    int device = 0;
    int cache_bytes = 0;
    require(cudaGetDevice(&device), "cudaGetDevice");
    require(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
    return {{"cache_bytes", cache_bytes},
            {"cufft_version", fft_version()},
            {"cublas_version", blas_ != nullptr ? blas_->version() : 0}};
  }

 private:
  static int fft_version() {
    try {
      int version = 0;
      return cufft_library::load()->get_version(&version) == cufft_library::success ? version : 0;
    } catch (const std::runtime_error&) {
      return 0;
    }
  }

  std::shared_ptr<cublas> blas_;
};

}  // namespace

std::unique_ptr<bare_calls> open_bare_calls() {
  return std::make_unique<cuda_calls>();
}

}  // namespace penstock::bench
