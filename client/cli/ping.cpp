#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "base/histogram.hpp"
#include "base/quantity.hpp"
#include "client/cli/commands.hpp"

namespace penstock::cli {
namespace {

struct ping_options {
  int count = 1;
  bool quiet = false;
};

int measure(const global_options& global, const ping_options& options) {
  client daemon{client_options_of(global)};
  latency_histogram times;
  for (int each = 0; each < options.count; ++each) {
    times.record(daemon.ping(global.timeout));
  }
  if (options.quiet) {
    return EXIT_SUCCESS;
  }
  std::cout << daemon.server().name << " at " << global.url << ": ";
  if (options.count == 1) {
    std::cout << duration_text(times.max()) << "\n";
  } else {
    std::cout << options.count << " round trips, p50 " << duration_text(times.percentile(50)) << ", p99 "
              << duration_text(times.percentile(99)) << ", max " << duration_text(times.max()) << "\n";
  }
  return EXIT_SUCCESS;
}

/// Always one line, for health checks.
int ping(const global_options& global, const ping_options& options) {
  try {
    return measure(global, options);
  } catch (const std::runtime_error& failed) {
    if (!options.quiet) {
      std::cerr << "penstock: " << failed.what() << "\n";
    }
    return EXIT_FAILURE;
  }
}

}  // namespace

void declare_ping(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "ping", "Measures round trips to the daemon; exits with 0 when it answers and 1 when it does not");
  const auto options = std::make_shared<ping_options>();
  command->add_option("-n,--count", options->count, "Round trips to measure")
      ->check(CLI::Range(1, 10'000'000).description(""))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("-q,--quiet", options->quiet, "Print nothing: only the exit code");
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return ping(global, *options); }; });
}

}  // namespace penstock::cli
