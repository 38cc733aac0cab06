#include "tests/bench/overload/overload_case.hpp"

#include <chrono>

#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/closed_loop.hpp"
#include "tests/bench/flood.hpp"

namespace penstock::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t default_credits = 256;  // the daemon's
constexpr std::size_t affine_credits = 1024;  // affine_configuration's
constexpr std::size_t small_floats = 256 / sizeof(float);

}  // namespace

std::vector<overload_case> overload_cases(const std::string& backend) {
  const fairness_shape refuses = shape_for(backend);
  fairness_shape drops = refuses;
  drops.of_pipelines = "overflow = \"drop-oldest\"\n";
  return {{"compute", refuses.configuration(), shared_pipeline, refuses.floats, default_credits},
          {"messages", affine_configuration{.floats = {small_floats}}.text(), 0, small_floats, affine_credits},
          {"drop-oldest", drops.configuration(), shared_pipeline, drops.floats, default_credits}};
}

double capacity_of(const std::string& endpoint, const overload_case& of, bool quick) {
  closed_loop loop({.endpoint = endpoint,
                    .pipeline = of.pipeline,
                    .floats = of.floats,
                    .clients = overload_clients,
                    .in_flight = of.credits});
  loop.run(milliseconds{quick ? 100 : 500});
  return loop.run(milliseconds{quick ? 500 : 1500}).requests_per_second;
}

}  // namespace penstock::bench
