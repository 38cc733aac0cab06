#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/benchmarks.hpp"
#include "tests/bench/closed_loop.hpp"
#include "tests/bench/servers.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using testing::daemon_process;

constexpr std::size_t small_floats = 64;
constexpr std::size_t total_in_flight = 256;

// One x with its daemon and contenders.
struct point {
  double x = 0;
  std::unique_ptr<daemon_process> daemon;
  comparison contenders;
};

struct series {
  std::string name;
  std::vector<point> points;
};

// All clients of a point together have `total_in_flight`.
closed_loop_settings shared_load(const std::string& endpoint, bool hello, std::size_t clients) {
  return {.endpoint = endpoint,
          .hello = hello,
          .floats = small_floats,
          .clients = clients,
          .in_flight = std::max<std::size_t>(total_in_flight / clients, 1)};
}

// The default of limits.memory does not admit a thousand clients on a small machine.
std::unique_ptr<daemon_process> start(const bench_options& options, const std::string& configuration) {
  return std::make_unique<daemon_process>(testing::daemon_options{
      options.backend, "callback", configuration + "[limits]\nmemory = \"1 TiB\"\n", endpoint_source().tcp()});
}

series by_clients(const bench_options& options, const echo_server& echo) {
  series all{"clients", {}};
  for (const std::size_t clients : {1U, 3U, 10U, 30U, 100U, 300U, 1000U}) {
    point& each = all.points.emplace_back();
    each.x = static_cast<double>(clients);
    each.daemon = start(options, affine_configuration{}.text());
    each.contenders.add("echo", shared_load(echo.endpoint(), false, clients));
    each.contenders.add("daemon", shared_load(each.daemon->endpoint(), true, clients));
  }
  return all;
}

series by_pipelines(const bench_options& options, const echo_server& echo) {
  constexpr std::size_t clients = 64;
  series all{"pipelines", {}};
  for (const std::uint32_t pipelines : {1U, 4U, 16U, 64U}) {
    point& each = all.points.emplace_back();
    each.x = pipelines;
    each.daemon =
        start(options, affine_configuration{.floats = std::vector<std::size_t>(pipelines, small_floats)}.text());
    closed_loop_settings load = shared_load(each.daemon->endpoint(), true, clients);
    load.pipelines = pipelines;
    each.contenders.add("echo", shared_load(echo.endpoint(), false, clients));
    each.contenders.add("daemon", load);
  }
  return all;
}

// Work that takes a stream far longer than the sockets.
series by_streams(const bench_options& options) {
  series all{"streams", {}};
  fairness_shape shape;
  if (options.backend == "cuda") {
    shape.floats = 16384;
    shape.taps = 16384;
    shape.stages = 4;
  }
  for (const int streams : {1, 2, 4, 8, 16}) {
    point& each = all.points.emplace_back();
    each.x = streams;
    shape.streams = streams;
    each.daemon = start(options, shape.configuration());
    each.contenders.add("daemon",
                        {.endpoint = each.daemon->endpoint(), .floats = shape.floats, .clients = 8, .in_flight = 8});
  }
  return all;
}

series by_shards(const bench_options& options, const echo_server& echo) {
  constexpr std::size_t clients = 32;
  series all{"shards", {}};
  for (const int shards : {1, 2, 4}) {
    point& each = all.points.emplace_back();
    each.x = shards;
    each.daemon = start(options, affine_configuration{.shards = shards}.text());
    each.contenders.add("echo", shared_load(echo.endpoint(), false, clients));
    each.contenders.add("daemon", shared_load(each.daemon->endpoint(), true, clients));
  }
  return all;
}

// Many small kernels for each batch.
series by_stages(const bench_options& options, const echo_server& echo, const char* name, std::size_t clients,
                 std::size_t most_in_flight) {
  series all{name, {}};
  for (const int stages : {1, 2, 4, 8, 16}) {
    point& each = all.points.emplace_back();
    each.x = stages;
    each.daemon = start(options, affine_configuration{.stages = stages}.text());
    closed_loop_settings load = shared_load(echo.endpoint(), false, clients);
    load.in_flight = std::min(load.in_flight, most_in_flight);
    each.contenders.add("echo", load);
    load.endpoint = each.daemon->endpoint();
    load.hello = true;
    each.contenders.add("daemon", load);
  }
  return all;
}

ordered_json measure(series all, const bench_options& options) {
  const milliseconds span = options.turn();
  for (point& each : all.points) {
    each.contenders.warm_up(span / 4);
  }
  interleave(options, "growth: " + all.name, [&](int /*repeat*/) {
    for (point& each : all.points) {
      each.contenders.turn(span);
    }
  });
  ordered_json result = {{"name", all.name}, {"rows", ordered_json::array()}};
  for (const point& each : all.points) {
    ordered_json row = {{"x", each.x}};
    row.update(each.contenders.figures());
    result["rows"].push_back(row);
  }
  return result;
}

}  // namespace

// How throughput changes with clients, pipelines, streams, shards and stages.
ordered_json run_growth(const bench_options& options) {
  const echo_server echo(endpoint_source().tcp());
  ordered_json result =
      new_result("growth", options, device_of(start(options, affine_configuration{}.text())->endpoint()));
  result["small_bytes"] = small_floats * sizeof(float);
  result["in_flight"] = total_in_flight;
  result["series"].push_back(measure(by_clients(options, echo), options));
  result["series"].push_back(measure(by_pipelines(options, echo), options));
  result["series"].push_back(measure(by_streams(options), options));
  result["series"].push_back(measure(by_shards(options, echo), options));
  result["series"].push_back(measure(by_stages(options, echo, "stages", 32, total_in_flight), options));
  result["series"].push_back(measure(by_stages(options, echo, "stages, one request at a time", 1, 1), options));
  return result;
}

}  // namespace penstock::bench
