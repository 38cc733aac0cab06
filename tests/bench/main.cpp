#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock_version.hpp"
#include "tests/bench/aim.hpp"
#include "tests/bench/completion/completion.hpp"
#include "tests/bench/devices/devices.hpp"
#include "tests/bench/fairness/fairness.hpp"
#include "tests/bench/floors/gate.hpp"
#include "tests/bench/growth/growth.hpp"
#include "tests/bench/isolation/isolation.hpp"
#include "tests/bench/latency/latency.hpp"
#include "tests/bench/link/link.hpp"
#include "tests/bench/modes/modes.hpp"
#include "tests/bench/no_gpu.hpp"
#include "tests/bench/operators/operators.hpp"
#include "tests/bench/overlap/overlap.hpp"
#include "tests/bench/overload/overload.hpp"
#include "tests/bench/page.hpp"
#include "tests/bench/ring/ring.hpp"
#include "tests/bench/round_trip/round_trip.hpp"
#include "tests/bench/sections.hpp"
#include "tests/bench/shared/shared.hpp"
#include "tests/bench/steady/steady.hpp"
#include "tests/bench/submit/submit.hpp"
#include "tests/bench/throughput/throughput.hpp"
#include "tests/bench/timing/timing.hpp"
#include "tests/bench/zmq/zmq.hpp"

namespace {

using namespace penstock::bench;

// What measures. How it is shown is in sections.cpp, under the same name.
struct benchmark {
  nlohmann::ordered_json (*run)(const bench_options&);
  int repeats;               ///< unless told otherwise
  bool takes_turns = false;  ///< of bench_options::turn
};

const std::map<std::string, benchmark> benchmarks{
    {"zmq", {run_zmq, 5}},
    {"ring", {run_ring, 5}},
    {"throughput", {run_throughput, 5, true}},
    {"modes", {run_modes, 15, true}},
    {"shared", {run_shared, 5, true}},
    {"latency", {run_latency, 5, true}},
    {"overload", {run_overload, 5}},
    {"growth", {run_growth, 5, true}},
    {"steady", {run_steady, 1}},
    {"round-trip", {run_round_trip, 5}},
    {"overlap", {run_overlap, 7}},
    {"fairness", {run_fairness, 5}},
    {"devices", {run_devices, 5}},
    {"timing", {run_timing, 9}},
    {"operators", {run_operators, 5}},
    {"link", {run_link, 5}},
    {"completion", {run_completion, 5}},
    {"isolation", {run_isolation, 5}},
    {"submit", {run_submit, 5}},
};

struct command_line {
  bench_options options{.backend = "host", .repeats = 0, .quick = false};
  std::string what = "round-trip";
  std::string json;
  std::string floors;
  std::vector<std::string> render;
  std::vector<std::string> draw;
  bool names = false;
};

void declare(CLI::App& app, command_line& line) {
  app.set_version_flag("--version", std::string("penstock-bench ") + penstock::version);
  app.add_option("benchmark", line.what, "Which; --names lists them")
      ->capture_default_str()
      ->check(CLI::IsMember(benchmarks));
  app.add_flag("--names", line.names, "Measure nothing: print the benchmarks' names");
  app.add_option("--backend", line.options.backend, "The daemon's device backend")
      ->capture_default_str()
      ->take_last()
      ->check(CLI::IsMember({"host", "cuda"}));
  app.add_option("--repeats", line.options.repeats, "Interleaved repeats; default: what the benchmark needs")
      ->check(CLI::Range(1, 100));
  app.add_option("--json", line.json, "Write the figures here too");
  app.add_option("--minutes", line.options.minutes, "How long `steady` runs")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1440.0));
  app.add_option("--floors", line.floors,
                 "Measure a few ratios on the host backend instead, and fail when one is below its floor in this file");
  app.add_flag("--quick", line.options.quick, "Short runs: to see that it works, not for figures");
  app.add_option("--turn", line.options.turn_ms,
                 "Milliseconds that each contender of `throughput`, `modes`, `shared`, `growth` or the idle rows of "
                 "`latency` runs "
                 "for in a repeat; default: 1000, with --quick 100")
      ->check(CLI::Range(10, 60'000));
  app.add_option("--render", line.render, "Measure nothing: print the page of these JSON files");
  app.add_option("--draw", line.draw, "Measure nothing: draw these JSON files, each beside itself as SVG");
}

// False when the benchmark has found that something does not hold.
[[nodiscard]] bool measure(const command_line& line) {
  const benchmark& chosen = benchmarks.at(line.what);
  bench_options options = line.options;
  options.repeats = options.repeats == 0 ? chosen.repeats : options.repeats;
  nlohmann::ordered_json result = chosen.run(options);
  if (options.quick) {
    result["quick"] = true;
  }
  if (options.turn_ms != 0 && chosen.takes_turns) {
    result["turn_ms"] = options.turn_ms;
  }
  std::fputs((tables_of(result) + aims_table({result})).c_str(), stdout);
  if (!line.json.empty() && !(std::ofstream(line.json) << result.dump(1) << '\n')) {
    throw std::runtime_error("cannot write " + line.json);
  }
  return result.value("passed", true);
}

// What was found wrong has been printed by then.
[[nodiscard]] bool do_as_told(const command_line& line) {
  if (line.names) {
    for (const section& each : sections()) {
      std::printf("%s\n", each.name);
    }
  } else if (!line.render.empty()) {
    std::fputs(page_of(line.render).c_str(), stdout);
  } else if (!line.draw.empty()) {
    for (const std::string& file : line.draw) {
      write_drawings(file);
    }
  } else if (!line.floors.empty()) {
    return pass_gate(line.floors, line.options.repeats == 0 ? 7 : line.options.repeats);
  } else {
    return measure(line);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"penstock-bench measures the daemon against the limits of its machine, both in the same run."};
  command_line line;
  declare(app, line);
  CLI11_PARSE(app, argc, argv);
  try {
    return do_as_told(line) ? 0 : 1;
  } catch (const no_gpu& error) {
    std::fprintf(stderr, "penstock-bench: %s\n", error.what());
    return no_gpu::exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "penstock-bench: %s\n", error.what());
    return 1;
  }
}
