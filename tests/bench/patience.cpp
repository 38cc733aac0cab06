#include "tests/bench/patience.hpp"

#include <chrono>
#include <stdexcept>

#include "tests/bench/bare_cuda.hpp"

namespace penstock::bench {

void patience::end() {
  require(cudaStreamQuery(cudaStreamPerThread), "what the device was doing");
  throw std::runtime_error("the device has completed nothing for ten seconds");
}

void patience::look() {
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (turns_ == turns_a_look) {
    first_look_ = now;
  } else if (now - first_look_ > seconds) {
    end();
  }
}

}  // namespace penstock::bench
