#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock_version.hpp"
#include "tests/bench/devices.hpp"
#include "tests/bench/fairness.hpp"
#include "tests/bench/overlap.hpp"
#include "tests/bench/page.hpp"
#include "tests/bench/round_trip.hpp"
#include "tests/bench/timeline_drawing.hpp"
#include "tests/bench/timing.hpp"

namespace {

using namespace penstock::bench;

struct benchmark {
  nlohmann::ordered_json (*run)(const bench_options&);
  int repeats;  ///< unless told otherwise
};

const std::map<std::string, benchmark> benchmarks{{"round-trip", {run_round_trip, 5}},
                                                  {"overlap", {run_overlap, 7}},
                                                  {"fairness", {run_fairness, 5}},
                                                  {"devices", {run_devices, 5}},
                                                  {"timing", {run_timing, 9}}};

struct command_line {
  bench_options options{.backend = "host", .repeats = 0, .quick = false};
  std::string what = "round-trip";
  std::string json;
  std::vector<std::string> render;
  std::string draw;
};

void declare(CLI::App& app, command_line& line) {
  app.set_version_flag("--version", std::string("penstock-bench ") + penstock::version);
  app.add_option("benchmark", line.what, "round-trip, overlap, fairness, devices or timing")
      ->capture_default_str()
      ->check(CLI::IsMember(benchmarks));
  app.add_option("--backend", line.options.backend, "The daemon's device backend")
      ->capture_default_str()
      ->check(CLI::IsMember({"host", "cuda"}));
  app.add_option("--repeats", line.options.repeats, "Interleaved repeats; default: what the benchmark needs")
      ->check(CLI::Range(1, 100));
  app.add_option("--json", line.json, "Write the figures here too");
  app.add_flag("--quick", line.options.quick, "Short runs: to see that it works, not for figures");
  app.add_option("--render", line.render, "Measure nothing: print the page of these JSON files");
  app.add_option("--draw", line.draw, "Measure nothing: print the timeline in this JSON file of `overlap` as SVG");
}

void measure(const command_line& line) {
  const benchmark& chosen = benchmarks.at(line.what);
  bench_options options = line.options;
  options.repeats = options.repeats == 0 ? chosen.repeats : options.repeats;
  const nlohmann::ordered_json result = chosen.run(options);
  std::fputs(tables_of(result).c_str(), stdout);
  if (!line.json.empty() && !(std::ofstream(line.json) << result.dump(1) << '\n')) {
    throw std::runtime_error("cannot write " + line.json);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"penstock-bench measures the daemon against the limits of its machine, both in the same run."};
  command_line line;
  declare(app, line);
  CLI11_PARSE(app, argc, argv);
  try {
    if (!line.render.empty()) {
      std::fputs(page_of(line.render).c_str(), stdout);
    } else if (!line.draw.empty()) {
      std::fputs(draw_timeline(read_result(line.draw).at("timeline")).c_str(), stdout);
    } else {
      measure(line);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "penstock-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
