#include "tests/bench/link/link.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

#include "tests/bench/bare_gpu.hpp"
#include "tests/bench/link/piece_group.hpp"
#include "tests/bench/link/whole_copies.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr piece_shape shapes[] = {{64, 256}, {256, 256}, {64, 4096}, {256, 4096}, {64, 65536}};

struct contender {
  direction to;
  piece_way way;
  std::vector<double> group_us;
};

// Groups back to back on one stream; the wait for the last is part of it.
double microseconds_a_group(piece_group& of, const contender& how, cudaStream_t on, int groups) {
  of.enqueue(how.way, how.to, on);
  require(cudaStreamSynchronize(on), "cudaStreamSynchronize");
  const clock::time_point begin = clock::now();
  for (int group = 0; group < groups; ++group) {
    of.enqueue(how.way, how.to, on);
  }
  require(cudaStreamSynchronize(on), "cudaStreamSynchronize");
  return std::chrono::duration<double, std::micro>(clock::now() - begin).count() / groups;
}

ordered_json measure_pieces(piece_shape shape, cudaStream_t on, const bench_options& options) {
  piece_group group(shape);
  std::vector<contender> contenders;
  for (const direction to : {direction::in, direction::out}) {
    for (const piece_way way : ways_for(to)) {
      contenders.push_back({to, way, {}});
    }
  }
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (contender& each : contenders) {
      each.group_us.push_back(microseconds_a_group(group, each, on, options.quick ? 20 : 200));
    }
  }
  ordered_json row = {{"pieces", shape.pieces},
                      {"piece_bytes", shape.bytes},
                      {"in", ordered_json::object()},
                      {"out", ordered_json::object()}};
  for (const contender& each : contenders) {
    row[each.to == direction::in ? "in" : "out"][name_of(each.way)] = to_json(spread_of(each.group_us));
  }
  return row;
}

}  // namespace

ordered_json run_link(const bench_options& options) {
  ordered_json result = {
      {"benchmark", "link"}, {"machine", machine_facts()}, {"device", use_gpu(options)}, {"repeats", options.repeats}};
  result.update(measure_whole_copies(options));
  result["pieces"] = ordered_json::array();
  const bare_stream on = make_bare_stream();
  for (const piece_shape& shape : shapes) {
    result["pieces"].push_back(measure_pieces(shape, on.get(), options));
  }
  std::fputc('\n', stderr);
  return result;
}

}  // namespace penstock::bench
