#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock_version.hpp"
#include "tests/bench/benchmarks.hpp"
#include "tests/bench/quick.hpp"

namespace {

using namespace penstock::bench;

struct benchmark {
  const char* name;
  run_benchmark* run;  ///< nullptr in a build without CUDA
  int repeats;         ///< by default
};

#ifdef PENSTOCK_BENCH_CUDA
#define PENSTOCK_CUDA_BENCHMARK(run) run
#else
#define PENSTOCK_CUDA_BENCHMARK(run) nullptr
#endif

constexpr benchmark benchmarks[] = {
    {"zmq", run_zmq, 5},
    {"micro", run_micro, 5},
    {"throughput", run_throughput, 5},
    {"modes", run_modes, 15},
    {"shared", run_shared, 5},
    {"latency", run_latency, 5},
    {"overload", run_overload, 5},
    {"growth", run_growth, 5},
    {"steady", run_steady, 1},
    {"overlap", run_overlap, 7},
    {"fairness", run_fairness, 5},
    {"devices", run_devices, 5},
    {"timing", run_timing, 9},
    {"live", run_live, 7},
    {"operators", run_operators, 5},
    {"link", PENSTOCK_CUDA_BENCHMARK(run_link), 5},
    {"completion", PENSTOCK_CUDA_BENCHMARK(run_completion), 5},
    {"isolation", PENSTOCK_CUDA_BENCHMARK(run_isolation), 5},
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const benchmark& each : benchmarks) {
    all.emplace_back(each.name);
  }
  return all;
}

struct command_line {
  bench_options options{.backend = "host", .repeats = 0, .quick = false};
  std::string name;
  std::string json;
  std::string floors;
  bool names = false;
};

void declare(CLI::App& app, command_line& line) {
  app.set_version_flag("--version", std::string("penstock-bench ") + penstock::version);
  app.add_option("benchmark", line.name, "Name of the benchmark; --names lists them")->check(CLI::IsMember(names()));
  app.add_flag("--names", line.names, "Print the names of the benchmarks");
  app.add_option("--backend", line.options.backend, "Device backend of the daemon")
      ->capture_default_str()
      ->take_last()
      ->check(CLI::IsMember({"host", "cuda"}));
  app.add_option("--repeats", line.options.repeats, "Interleaved repeats; the default depends on the benchmark")
      ->check(CLI::Range(1, 100));
  app.add_option("--json", line.json, "Write the result to this file instead of the standard output");
  app.add_option("--minutes", line.options.minutes, "Duration of `steady`")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1440.0));
  app.add_option("--floors", line.floors,
                 "Measure a few ratios on the host backend, and fail if one is below its floor in this file");
  app.add_option("--only", line.options.only, "Of `operators`, those whose name contains this");
  app.add_flag("--quick", line.options.quick, "Short runs that only show that the benchmark works");
  app.add_option(
         "--turn", line.options.turn_ms,
         "Milliseconds of each contender in a repeat of `throughput`, `modes`, `shared`, `growth` and of the idle "
         "part of `latency`; default: 1000, with --quick 100")
      ->check(CLI::Range(10, 60'000));
}

// False if the benchmark found that something does not hold.
[[nodiscard]] bool measure(const benchmark& chosen, const command_line& line) {
  if (chosen.run == nullptr) {
    throw no_gpu("this benchmark measures a GPU, and this program was built without CUDA");
  }
  bench_options options = line.options;
  options.repeats = options.repeats == 0 ? chosen.repeats : options.repeats;
  nlohmann::ordered_json result = chosen.run(options);
  if (options.quick) {
    result["quick"] = true;
  }
  if (options.turn_ms != 0) {
    result["turn_ms"] = options.turn_ms;
  }
  if (line.json.empty()) {
    std::puts(result.dump(1).c_str());
  } else if (!(std::ofstream(line.json) << result.dump(1) << '\n')) {
    throw std::runtime_error("cannot write " + line.json);
  }
  return result.value("passed", true);
}

[[nodiscard]] bool run(const command_line& line) {
  if (line.names) {
    for (const std::string& name : names()) {
      std::puts(name.c_str());
    }
    return true;
  }
  if (!line.floors.empty()) {
    return run_quick_gate(line.floors, line.options.repeats == 0 ? 7 : line.options.repeats);
  }
  for (const benchmark& each : benchmarks) {
    if (line.name == each.name) {
      return measure(each, line);
    }
  }
  throw std::runtime_error("name a benchmark; --names lists them");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"penstock-bench measures the daemon against the limits of its machine, both in the same run."};
  command_line line;
  declare(app, line);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(line) ? 0 : 1;
  } catch (const no_gpu& error) {
    std::fprintf(stderr, "penstock-bench: %s\n", error.what());
    return no_gpu::exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "penstock-bench: %s\n", error.what());
    return 1;
  }
}
