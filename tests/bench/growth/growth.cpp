#include "tests/bench/growth/growth.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/echo_server.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/flood.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/race.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using testing::daemon_process;

constexpr std::size_t small_floats = 64;
constexpr std::size_t together_in_flight = 256;

// One x: its daemon, and who is measured there.
struct point {
  double x = 0;
  std::unique_ptr<daemon_process> daemon;
  race contenders;
};

struct series {
  std::string name;
  std::string unit;
  bool grows = false;  ///< hoped to grow with x; else to stay
  std::vector<point> points;
};

// The clients of one point share what is in flight.
closed_loop_settings shared_load(const std::string& endpoint, bool hello, std::size_t clients) {
  return {.endpoint = endpoint,
          .hello = hello,
          .floats = small_floats,
          .clients = clients,
          .in_flight = std::max<std::size_t>(together_in_flight / clients, 1)};
}

std::unique_ptr<daemon_process> start(const bench_options& options, const std::string& configuration) {
  return std::make_unique<daemon_process>(
      testing::daemon_options{options.backend, "callback", configuration, endpoint_source().tcp()});
}

series by_clients(const bench_options& options, const echo_server& echo) {
  series made{"clients", "clients", false, {}};
  for (const std::size_t clients : {1U, 3U, 10U, 30U, 100U, 300U, 1000U}) {
    point& each = made.points.emplace_back();
    each.x = static_cast<double>(clients);
    each.daemon = start(options, affine_configuration{}.text());
    each.contenders.add("echo", shared_load(echo.endpoint(), false, clients));
    each.contenders.add("daemon", shared_load(each.daemon->endpoint(), true, clients));
  }
  return made;
}

series by_pipelines(const bench_options& options, const echo_server& echo) {
  constexpr std::size_t clients = 64;
  series made{"pipelines", "pipelines", false, {}};
  for (const std::uint32_t pipelines : {1U, 4U, 16U, 64U}) {
    point& each = made.points.emplace_back();
    each.x = pipelines;
    each.daemon =
        start(options, affine_configuration{.floats = std::vector<std::size_t>(pipelines, small_floats)}.text());
    closed_loop_settings load = shared_load(each.daemon->endpoint(), true, clients);
    load.pipelines = pipelines;
    each.contenders.add("echo", shared_load(echo.endpoint(), false, clients));
    each.contenders.add("daemon", load);
  }
  return made;
}

series by_size(const bench_options& options, const echo_server& echo) {
  series made{"frame size", "frame, bytes", true, {}};
  for (std::size_t bytes = 64; bytes <= std::size_t{64} << 20U; bytes *= 4) {
    point& each = made.points.emplace_back();
    each.x = static_cast<double>(bytes);
    affine_configuration shape{.floats = {bytes / sizeof(float)}};
    shape.streams = bytes > std::size_t{8} << 20U ? 2 : 8;
    each.daemon = start(options, shape.text());
    closed_loop_settings load{.endpoint = echo.endpoint(),
                              .hello = false,
                              .floats = bytes / sizeof(float),
                              .clients = 4,
                              .in_flight = bytes <= 65536       ? 16U
                                           : bytes <= 4U << 20U ? 4U
                                                                : 1U};
    each.contenders.add("echo", load);
    load.endpoint = each.daemon->endpoint();
    load.hello = true;
    each.contenders.add("daemon", load);
  }
  return made;
}

// Work that keeps a stream busy far longer than the sockets.
series by_streams(const bench_options& options) {
  series made{"streams", "streams", true, {}};
  fairness_shape shape;
  if (options.backend == "cuda") {
    shape.floats = 16384;
    shape.taps = 16384;
    shape.stages = 4;
  }
  for (const int streams : {1, 2, 4, 8, 16}) {
    point& each = made.points.emplace_back();
    each.x = streams;
    shape.streams = streams;
    each.daemon = start(options, shape.configuration());
    each.contenders.add("daemon",
                        {.endpoint = each.daemon->endpoint(), .floats = shape.floats, .clients = 8, .in_flight = 8});
  }
  return made;
}

series by_shards(const bench_options& options, const echo_server& echo) {
  constexpr std::size_t clients = 32;
  series made{"shards", "shards", true, {}};
  for (const int shards : {1, 2, 4}) {
    point& each = made.points.emplace_back();
    each.x = shards;
    each.daemon = start(options, affine_configuration{.shards = shards}.text());
    each.contenders.add("echo", shared_load(echo.endpoint(), false, clients));
    each.contenders.add("daemon", shared_load(each.daemon->endpoint(), true, clients));
  }
  return made;
}

// Many small kernels for each batch.
series by_stages(const bench_options& options, const echo_server& echo, const char* name, std::size_t clients,
                 std::size_t most_in_flight) {
  series made{name, "stages", false, {}};
  for (const int stages : {1, 2, 4, 8, 16}) {
    point& each = made.points.emplace_back();
    each.x = stages;
    each.daemon = start(options, affine_configuration{.stages = stages}.text());
    closed_loop_settings load = shared_load(echo.endpoint(), false, clients);
    load.in_flight = std::min(load.in_flight, most_in_flight);
    each.contenders.add("echo", load);
    load.endpoint = each.daemon->endpoint();
    load.hello = true;
    each.contenders.add("daemon", load);
  }
  return made;
}

ordered_json measure(series all, const bench_options& options) {
  const milliseconds span = options.turn();
  for (point& each : all.points) {
    each.contenders.warm_up(span / 4);
  }
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (point& each : all.points) {
      each.contenders.turn(span);
    }
    std::fprintf(stderr, "\rgrowth: %s, repeat %d of %d   ", all.name.c_str(), repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
  ordered_json made = {{"name", all.name}, {"unit", all.unit}, {"grows", all.grows}, {"rows", ordered_json::array()}};
  for (const point& each : all.points) {
    ordered_json row = {{"x", each.x}};
    row.update(each.contenders.figures());
    made["rows"].push_back(row);
  }
  return made;
}

}  // namespace

ordered_json run_growth(const bench_options& options) {
  const echo_server echo(endpoint_source().tcp());
  ordered_json result = {{"benchmark", "growth"},
                         {"machine", machine_facts()},
                         {"device", device_of(start(options, affine_configuration{}.text())->endpoint())},
                         {"repeats", options.repeats},
                         {"small_bytes", small_floats * sizeof(float)},
                         {"in_flight", together_in_flight},
                         {"series", ordered_json::array()}};
  result["series"].push_back(measure(by_clients(options, echo), options));
  result["series"].push_back(measure(by_pipelines(options, echo), options));
  result["series"].push_back(measure(by_size(options, echo), options));
  result["series"].push_back(measure(by_streams(options), options));
  result["series"].push_back(measure(by_shards(options, echo), options));
  result["series"].push_back(measure(by_stages(options, echo, "stages", 32, together_in_flight), options));
  result["series"].push_back(measure(by_stages(options, echo, "stages, one request at a time", 1, 1), options));
  return result;
}

}  // namespace penstock::bench
