#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock_version.hpp"
#include "tests/bench/page.hpp"
#include "tests/bench/round_trip.hpp"
#include "tests/bench/round_trip_page.hpp"

int main(int argc, char** argv) {
  using namespace penstock::bench;
  CLI::App app{"penstock-bench measures the daemon against the limits of its machine, both in the same run."};
  round_trip_options options;
  std::string json;
  std::vector<std::string> render;
  app.set_version_flag("--version", std::string("penstock-bench ") + penstock::version);
  app.add_option("--backend", options.backend, "The daemon's device backend")->capture_default_str();
  app.add_option("--repeats", options.repeats, "Interleaved repeats")->capture_default_str()->check(CLI::Range(1, 100));
  app.add_option("--json", json, "Write the figures here too");
  app.add_flag("--quick", options.quick, "Short runs: to see that it works, not for figures");
  app.add_option("--render", render, "Measure nothing: print the page of these JSON files");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!render.empty()) {
      std::fputs(page_of(render).c_str(), stdout);
      return 0;
    }
    const nlohmann::ordered_json result = run_round_trip(options);
    std::fputs(round_trip_tables(result).c_str(), stdout);
    if (!json.empty()) {
      std::ofstream(json) << result.dump(1) << '\n';
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "penstock-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
