#include "tests/bench/operators/bare_operations.hpp"

namespace penstock::bench {

std::unique_ptr<operation> make_cuda_copy(std::size_t /*bytes*/) {
  return nullptr;
}

std::unique_ptr<operation> make_bare_transform(std::int64_t /*length*/, std::int64_t /*rows*/, bool /*complex_input*/) {
  return nullptr;
}

}  // namespace penstock::bench
