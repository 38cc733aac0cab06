// Where there is no CUDA toolkit: the benchmarks of bare CUDA say so.

#include "tests/bench/completion/completion.hpp"
#include "tests/bench/isolation/isolation.hpp"
#include "tests/bench/link/link.hpp"
#include "tests/bench/no_gpu.hpp"
#include "tests/bench/submit/submit.hpp"

namespace penstock::bench {
namespace {

[[noreturn]] void refuse() {
  throw no_gpu("this benchmark measures a GPU, and this program was built without CUDA");
}

}  // namespace

nlohmann::ordered_json run_link(const bench_options& /*options*/) {
  refuse();
}

nlohmann::ordered_json run_completion(const bench_options& /*options*/) {
  refuse();
}

nlohmann::ordered_json run_isolation(const bench_options& /*options*/) {
  refuse();
}

nlohmann::ordered_json run_submit(const bench_options& /*options*/) {
  refuse();
}

}  // namespace penstock::bench
