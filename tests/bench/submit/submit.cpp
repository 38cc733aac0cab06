#include "tests/bench/submit/submit.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/bench/bare_batch.hpp"
#include "tests/bench/bare_gpu.hpp"
#include "tests/bench/link/piece_group.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/bench/submit/hand_over_cost.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr std::size_t streams = 8;
constexpr std::size_t bytes = 4096;
constexpr int kernel_counts[] = {1, 4, 8};
constexpr piece_shape shapes[] = {{8, 256}, {64, 256}, {256, 256}, {64, 4096}};

const std::vector<batch_form>& forms() {
  static const std::vector<batch_form> all{
      {.name = "stream callback", .told = notice::callback},
      {.name = "host function", .told = notice::host_function},
      {.name = "event", .told = notice::event},
      {.name = "event, cudaMemcpyBatchAsync", .told = notice::event, .together = true},
      {.name = "graph, event", .told = notice::event, .graph = true},
      {.name = "graph with new kernel arguments, event", .told = notice::event, .graph = true, .updated = true},
      {.name = "flag by a kernel behind", .told = notice::flag_behind},
      {.name = "flag by the stream", .told = notice::flag_by_stream},
      {.name = "mapped input and output, flag by the kernel",
       .told = notice::flag_in_kernel,
       .mapped_input = true,
       .mapped_output = true},
  };
  return all;
}

/// The cost of one call of something, from bursts with untimed waits between them.
struct cost {
  std::vector<double> wall_us, cpu_us;
};

// One call a stream in a burst: every stream is idle when it gets its own.
void time_bursts(cost& of, int bursts, const std::function<void(std::size_t)>& enqueue,
                 const std::function<void(std::size_t)>& wait) {
  double cpu_seconds = 0;
  std::vector<double> walls;
  walls.reserve(static_cast<std::size_t>(bursts));
  for (int burst = 0; burst < bursts; ++burst) {
    const double cpu_begin = thread_cpu_seconds();
    const clock::time_point begin = clock::now();
    for (std::size_t stream = 0; stream < streams; ++stream) {
      enqueue(stream);
    }
    walls.push_back(std::chrono::duration<double, std::micro>(clock::now() - begin).count() / streams);
    cpu_seconds += thread_cpu_seconds() - cpu_begin;
    for (std::size_t stream = 0; stream < streams; ++stream) {
      wait(stream);
    }
  }
  of.wall_us.push_back(quantile(walls, 0.5));
  of.cpu_us.push_back(cpu_seconds * 1e6 / (static_cast<double>(bursts) * streams));
}

ordered_json to_json(const cost& of) {
  return {{"wall_us", to_json(spread_of(of.wall_us))}, {"cpu_us", to_json(spread_of(of.cpu_us))}};
}

struct batch_contender {
  batch_form form;
  std::vector<std::unique_ptr<bare_batch>> batches;
  cost measured;
};

ordered_json measure_batches(int kernels, const std::vector<bare_stream>& on, const bench_options& options) {
  std::vector<batch_contender> contenders;
  for (const batch_form& form : available(forms())) {
    batch_contender made{form, {}, {}};
    for (const bare_stream& stream : on) {
      made.batches.push_back(std::make_unique<bare_batch>(form, stream.get(), bytes, kernels));
    }
    contenders.push_back(std::move(made));
  }
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (batch_contender& each : contenders) {
      time_bursts(
          each.measured, options.quick ? 20 : 200, [&](std::size_t at) { each.batches[at]->submit(); },
          [&](std::size_t at) { each.batches[at]->wait(); });
      each.batches.front()->check();
    }
    std::fprintf(stderr, "\rsubmit: %d kernels, repeat %d of %d   ", kernels, repeat + 1, options.repeats);
  }
  ordered_json row = {{"kernels", kernels}, {"ways", ordered_json::object()}};
  for (const batch_contender& each : contenders) {
    row["ways"][each.form.name] = to_json(each.measured);
  }
  return row;
}

ordered_json measure_pieces(piece_shape shape, const std::vector<bare_stream>& on, const bench_options& options) {
  piece_group group(shape);
  std::vector<std::pair<piece_way, cost>> contenders;
  for (const piece_way way : ways_for(direction::in)) {
    contenders.emplace_back(way, cost{});
  }
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (auto& [way, measured] : contenders) {
      time_bursts(
          measured, options.quick ? 5 : 50,
          [&, how = way](std::size_t at) { group.enqueue(how, direction::in, on[at].get()); },
          [&](std::size_t at) { require(cudaStreamSynchronize(on[at].get()), "cudaStreamSynchronize"); });
    }
  }
  ordered_json row = {{"pieces", shape.pieces}, {"piece_bytes", shape.bytes}, {"ways", ordered_json::object()}};
  for (const auto& [way, measured] : contenders) {
    row["ways"][name_of(way)] = to_json(measured);
  }
  return row;
}

}  // namespace

ordered_json run_submit(const bench_options& options) {
  ordered_json result = {{"benchmark", "submit"},
                         {"machine", machine_facts()},
                         {"device", use_gpu(options)},
                         {"repeats", options.repeats},
                         {"streams", streams},
                         {"bytes", bytes},
                         {"rows", ordered_json::array()},
                         {"pieces", ordered_json::array()}};
  std::vector<bare_stream> on(streams);
  for (bare_stream& each : on) {
    each = make_bare_stream();
  }
  for (const int kernels : kernel_counts) {
    result["rows"].push_back(measure_batches(kernels, on, options));
  }
  for (const piece_shape& shape : shapes) {
    result["pieces"].push_back(measure_pieces(shape, on, options));
  }
  result["hand_over"] = measure_hand_over(bytes, on, options);
  std::fputc('\n', stderr);
  return result;
}

}  // namespace penstock::bench
