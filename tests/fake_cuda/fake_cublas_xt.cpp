// cuBLAS-Xt without a GPU: products of small matrices by columns, on the calling thread.
//
// The first number of a column of B, which is a row of a stage's input, says how a call ends: 666 makes it fail, 555
// holds it until there is a file where FAKE_CUBLAS_GATE says, and 777 makes it never return.
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <thread>

#include <unistd.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr int success = 0;
constexpr int execution_failed = 13;
int only_handle = 0;

}  // namespace

EXPORTED int cublasXtCreate(void** handle) {
  *handle = &only_handle;
  return success;
}

EXPORTED int cublasXtDestroy(void* /*handle*/) {
  return success;
}

EXPORTED int cublasXtDeviceSelect(void* /*handle*/, int count, int* /*devices*/) {
  return count == 1 ? success : execution_failed;
}

EXPORTED int cublasXtSgemm(void* /*handle*/, int /*op_a*/, int /*op_b*/, std::size_t m, std::size_t n, std::size_t k,
                           const float* alpha, const float* a, std::size_t lda, const float* b, std::size_t ldb,
                           const float* /*beta*/, float* c, std::size_t ldc) {
  constexpr float failing = 666;
  constexpr float held = 555;
  constexpr float endless = 777;
  for (std::size_t column = 0; column < n; ++column) {
    if (b[column * ldb] == failing) {
      return execution_failed;
    }
    while (b[column * ldb] == held && ::access(std::getenv("FAKE_CUBLAS_GATE"), F_OK) != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    while (b[column * ldb] == endless) {
      ::pause();
    }
  }
  for (std::size_t column = 0; column < n; ++column) {
    for (std::size_t row = 0; row < m; ++row) {
      double sum = 0;
      for (std::size_t at = 0; at < k; ++at) {
        sum += static_cast<double>(a[at * lda + row]) * static_cast<double>(b[column * ldb + at]);
      }
      c[column * ldc + row] = static_cast<float>(static_cast<double>(*alpha) * sum);
    }
  }
  return success;
}
